"""The general decoder: reads every accepted form and explains why a record is invalid."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence, Sized
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from streameval.decoding.columns import Decoded
from streameval.decoding.fields import MAX_HISTORY, ONE_VALUE, EventFields
from streameval.decoding.invalid import InvalidEvent, Reason, Refusal, invalid_of
from streameval.decoding.paths import Path, TopLevel, compile_path
from streameval.decoding.times import check_time, microseconds
from streameval.decoding.values import (
    MAX_LABEL_BYTES,
    Ids,
    as_list,
    check_bytes,
    finite,
    label_text,
    positions,
    scores,
)
from streameval.events import (
    Combine,
    Event,
    Id,
    Interaction,
    Interactions,
    OtherTypes,
    columns_of,
    combine_gains,
    combine_interactions,
)
from streameval.events.errors import ConfigError, InvalidEventError
from streameval.events.per_item import item_values
from streameval.events.previews import preview
from streameval.events.rules import are_marks, check_not_ignored, marks_error, without_padding


def check_count(values: Sized, most: int, field: str, reason: Reason) -> None:
    """Refuse more than `most` elements."""
    if len(values) > most:
        raise Refusal(reason, f"{field} has {len(values)} elements; at most {most} are accepted")


def item_of(element: Any, path: Path, ids: Ids, where: str) -> Id:
    """The item id of an element: an id, or an object with an id."""
    if type(element) is not dict:
        return _item_id(ids, element, where)
    item = path.of(element)
    if item is None:
        raise Refusal("missing_field", f"{where}.{path.text} is absent or null")
    return _item_id(ids, item, f"{where}.{path.text}")


def _item_id(ids: Ids, item: object, where: str) -> Id:
    check_not_ignored(where, [item])
    return ids.id_of(item, where)


def items_of(elements: list[Any], path: Path, ids: Ids, field: str) -> list[Id]:
    """The item ids of a list of ids or objects."""
    kinds = set(map(type, elements))
    if dict not in kinds:
        check_not_ignored(field, elements)
        return ids.ids_of(elements, field)
    if len(kinds) > 1:
        return [item_of(element, path, ids, f"{field}[{i}]") for i, element in enumerate(elements)]
    items = path.of_records(elements)
    if None in items:
        where = f"{field}[{items.index(None)}].{path.text}"
        raise Refusal("missing_field", f"{where} is absent or null")
    check_not_ignored(field, items)
    return ids.ids_of(items, field)


class Recommended(NamedTuple):
    """The list shown, without padding.

    Attributes:
        padded: number of items with padding.
    """

    items: Sequence[Id]
    scores: list[float] | None
    padded: int


class RecommendationReader:
    """Reads recommendations: ids, or objects with an id and, optionally, a score."""

    def __init__(self, fields: EventFields, path: str, *, history: bool = False) -> None:
        self._field = path
        self._longest: int = MAX_HISTORY if history else fields.max_recommendations
        self._too_long: Reason = "history_too_long" if history else "too_many_recommendations"
        self._ids = Ids(fields.ids)
        self._item = compile_path(fields.item, "item")
        self._score = compile_path(fields.score, "score")

    def read(self, value: Any) -> Recommended:
        """Read the list shown."""
        values = as_list(value, self._field)
        check_count(values, self._longest, self._field, self._too_long)
        items = items_of(values, self._item, self._ids, self._field)
        unpadded = without_padding(self._field, items)
        return Recommended(unpadded, self._scores(values[: len(unpadded)]), len(items))

    def items(self, value: object, _: str) -> Sequence[Id]:
        """Read a list without its scores."""
        return self.read(value).items

    def _scores(self, values: list[Any]) -> list[float] | None:
        objects = [value for value in values if type(value) is dict]
        score_values = self._score.of_records(objects)
        if set(map(type, score_values)) == {float}:  # JSON numbers are finite
            return score_values if len(score_values) == len(values) else None
        numbers = [
            finite(score, f"{self._field}[{index}].{self._score.text}", "invalid_score")
            for index, value in enumerate(values)
            if type(value) is dict and (score := self._score.of(value)) is not None
        ]
        return numbers if numbers and len(numbers) == len(values) else None


class Engagement(NamedTuple):
    """The interactions of a record.

    Attributes:
        items: ids, or id -> gain.
        typed: the interactions in record order, or summed by item and type; empty if the record has
            ids or gains only.
        hides_loss: see `Batch.hidden_losses`.
        other_types: see `Batch.other_types`.
    """

    items: Interactions
    typed: tuple[Interaction, ...] = ()
    hides_loss: bool = False
    other_types: OtherTypes | None = None


class InteractionReader:
    """Reads interactions: ids, optionally with a list of gains; id -> gain; or objects."""

    def __init__(self, fields: EventFields) -> None:
        self._field = fields.interactions
        self._most = fields.max_interactions
        self._ids = Ids(fields.ids)
        self._item = compile_path(fields.interaction_item, "interaction_item")
        self._gain = compile_path(fields.gain, "gain")
        self._type = compile_path(fields.type, "type")
        self._types = fields.types
        self._how: Combine = fields.combine
        self._gains = fields.gains or "gains"

    def read(self, content: Any, gains: Any = None) -> Engagement:
        """Read the interactions; `gains`: those of ids, in a list of their own."""
        where = self._field
        if gains is not None and (
            type(content) is dict or (type(content) is list and dict in map(type, content))
        ):
            detail = f"{self._gains} are for a list of ids, but {where} have gains of their own"
            raise Refusal("invalid_gain", detail)
        if type(content) is dict:
            check_count(content, self._most, self._field, "too_many_interactions")
            if content:
                self._require_type(None, self._field)
            combined = combine_gains(
                (
                    (self._ids.id_of(key, where), finite(gain, f"{where}.{key}", "invalid_gain"))
                    for key, gain in content.items()
                ),
                self._how,
            )
            unpadded = without_padding(where, combined.by_item)
            return Engagement(unpadded, hides_loss=combined.hides_loss)
        values = as_list(content, self._field)
        check_count(values, self._most, self._field, "too_many_interactions")
        if dict not in map(type, values):
            if values:
                self._require_type(None, f"{self._field}[0]")
            items = items_of(values, self._item, self._ids, self._field)
            unpadded = without_padding(self._field, items)
            if gains is None:
                return Engagement(unpadded)
            pairs = zip(unpadded, self._gains_of(gains, len(unpadded), len(items)), strict=True)
            combined = combine_gains(pairs, self._how)
            return Engagement(combined.by_item, hides_loss=combined.hides_loss)
        typed = tuple(
            self._interaction(value, f"{self._field}[{i}]") for i, value in enumerate(values)
        )
        without_padding(self._field, {interaction.item for interaction in typed})
        other_types = None
        if self._types is not None:
            others = (
                interaction.type or ""
                for interaction in typed
                if interaction.type not in self._types
            )
            other_types = OtherTypes(tuple(self._types), tuple(others))
            typed = tuple(interaction for interaction in typed if interaction.type in self._types)
        combined, by_type = combine_interactions(typed, self._how)
        # With "max", the statistic takes the largest of each type.
        counted = by_type if self._how == "sum" else typed
        return Engagement(combined.by_item, counted, combined.hides_loss, other_types)

    def _gains_of(self, gains: Any, items: int, padded: int) -> list[float]:
        """The gains of ids, without those of padding."""
        values = as_list(gains, self._gains)
        if len(values) not in (items, padded):
            detail = f"{self._gains} has {len(values)} numbers for {items} {self._field}"
            raise Refusal("invalid_gain", detail)
        return [
            finite(gain, f"{self._gains}[{index}]", "invalid_gain")
            for index, gain in enumerate(values[:items])
        ]

    def _interaction(self, value: Any, where: str) -> Interaction:
        item = item_of(value, self._item, self._ids, where)
        if type(value) is not dict:
            self._require_type(None, where)
            return Interaction(item)
        gain, kind = self._gain.of(value), self._type.of(value)
        if kind is not None:
            field = f"{where}.{self._type.text}"
            if type(kind) is not str:
                raise Refusal("wrong_type", f"{field}: {preview(kind)} is not a string")
            check_bytes(kind, MAX_LABEL_BYTES, field, "label_too_long")
        self._require_type(kind, where)
        if gain is None:
            gain = float((self._types or {}).get(kind or "", 1.0))
        else:
            gain = finite(gain, f"{where}.{self._gain.text}", "invalid_gain")
        return Interaction(item, gain, kind)

    def _require_type(self, kind: str | None, where: str) -> None:
        if self._types is not None and kind is None:
            raise Refusal("missing_field", f"{where}.{self._type.text} is absent or null")


_NONE = Engagement([])
_OF_INTERACTIONS: Final = ("interactions", "gains")
_NAME: Final = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)
"""A name that a metric can have as a parameter."""


class DecodedEvent(Event, kw_only=True, gc=False):
    """An event, with the lists of the rankers that were not shown; see `Engagement`."""

    rankers: tuple[Sequence[Id], ...] = ()
    hides_loss: bool = False
    other_types: OtherTypes | None = None


class GeneralDecoder:
    """Decodes records through plain Python objects; defines what a record means.

    Raises:
        ConfigError: a configured path is invalid.
    """

    def __init__(
        self, fields: EventFields, dimensions: Sequence[str], *, recommendations_only: bool = False
    ) -> None:
        self._fields = fields
        self._name = Ids("string")
        self._recommendations_only = recommendations_only
        for name in fields.per_item or ():
            if not _NAME.fullmatch(name) or name in ("true", "false"):
                problem = f"{name!r} is not a name that a metric can have as a parameter"
                raise ConfigError("[event]", "per_item", f"{problem}; write it like 'propensity'")
        self._paths = {
            key: compile_path(path, key, lists=key.partition(".")[0] not in ONE_VALUE)
            for key, path in fields.paths(dimensions)
        }
        self._per_item = {name: self._paths[f"per_item.{name}"] for name in fields.per_item or ()}
        self._dimensions = [self._paths[f"labels.{name}"] for name in dimensions]
        self._rankers = [
            (self._paths[f"rankers.{name}"], RecommendationReader(fields, path).read)
            for name, path in (fields.rankers or {}).items()
        ]
        self._read_recommendations = RecommendationReader(fields, fields.recommendations).read
        self._read_baseline = RecommendationReader(fields, fields.baseline or "").items
        self._read_history = RecommendationReader(fields, fields.history or "", history=True).items
        self._read_interactions = InteractionReader(fields).read
        unread = _OF_INTERACTIONS if recommendations_only else ()
        self._parse = TopLevel(
            path.key for key, path in self._paths.items() if key not in unread
        ).parse

    def decode(self, value: bytes) -> DecodedEvent | InvalidEvent:
        """Decode a record; returns an `InvalidEvent` instead of raising."""
        record: dict[str, Any] = {}
        try:
            record = self._parse(value)
            return self._event(record)
        except Refusal as refusal:
            invalid = refusal.invalid
        except InvalidEventError as error:
            invalid = invalid_of(error)
        engaged = False
        with suppress(Refusal):
            engaged = not self._recommendations_only and bool(
                self._paths["interactions"].of(record)
            )
        return msgspec.structs.replace(invalid, engaged=engaged)

    def decode_many(self, values: Sequence[bytes | None]) -> Decoded:
        """Decode a batch of records to columns."""
        events, indices = list[DecodedEvent](), list[int]()
        invalid, tombstones = list[tuple[int, InvalidEvent]](), list[int]()
        for index, value in enumerate(values):
            event = None if value is None else self.decode(value)
            if event is None:
                tombstones.append(index)
            elif isinstance(event, InvalidEvent):
                invalid.append((index, event))
            else:
                events.append(event)
                indices.append(index)
        batch = columns_of(events)
        if "time" in self._paths:
            times = np.array([event.ts for event in events], dtype=np.int64)
            batch = msgspec.structs.replace(batch, times=times)
        if "event_id" in self._paths:
            ids = [str(event.event_id) for event in events]
            batch = msgspec.structs.replace(batch, event_ids=ids)
        if any(hidden_losses := [event.hides_loss for event in events]):
            batch = msgspec.structs.replace(batch, hidden_losses=hidden_losses)
        if self._fields.types is not None:
            other_types = [event.other_types for event in events]
            batch = msgspec.structs.replace(batch, other_types=other_types)
        return Decoded(
            batch=batch,
            indices=indices,
            dimensions=[event.labels for event in events] if self._dimensions else None,
            rankers=[event.rankers for event in events] if self._rankers else None,
            invalid=invalid,
            tombstones=tombstones,
        )

    def _event(self, record: dict[str, Any]) -> DecodedEvent:
        recommended = self._read_recommendations(self._paths["recommendations"].of(record))
        outcome = _NONE
        if not self._recommendations_only:
            gains = self._paths["gains"].of(record) if "gains" in self._paths else None
            outcome = self._read_interactions(self._paths["interactions"].of(record), gains)
            if are_marks(recommended.items, outcome.items):
                raise marks_error(self._fields.interactions)
        read, items = partial(self._read, record), (len(recommended.items), recommended.padded)
        return DecodedEvent(
            recommendations=recommended.items,
            interactions=outcome.items,
            user=read("user", self._name.id_of, optional=True) or None,
            ts=read("time", self._moment),
            labels=tuple(label_text(path.of(record), path.text) for path in self._dimensions),
            positions=read("positions", positions, *items, optional=True),
            scores=read("scores", scores, *items)
            if "scores" in self._paths
            else recommended.scores,
            baseline=read("baseline", self._read_baseline),
            history=read("history", self._read_history, optional=True),
            typed=outcome.typed,
            hides_loss=outcome.hides_loss,
            other_types=outcome.other_types,
            per_item=self._item_values(record, *items),
            rankers=tuple(read_list(path.of(record)).items for path, read_list in self._rankers),
            event_id=read("event_id", self._name.identity),
        )

    def _read(
        self,
        record: dict[str, Any],
        key: str,
        read: Callable[..., Any],
        *more: object,
        optional: bool = False,
    ) -> Any:
        """Read a field with `read(value, path, *more)`; None if it is not configured."""
        path = self._paths.get(key)
        value = None if path is None else path.of(record)
        if path is None or (value is None and optional):
            return None
        if value is None:
            raise Refusal("missing_field", f"{path.text} is absent or null")
        return read(value, path.text, *more)

    def _item_values(self, record: dict[str, Any], items: int, padded: int) -> Any:
        values: dict[str, Any] = {}
        for name, path in self._per_item.items():
            # Errors name the field of the record.
            by_name = item_values({path.text: path.of(record)}, items, padded) or {}
            for values[name] in by_name.values():
                for word in values[name]:
                    if isinstance(word, str):
                        check_bytes(word, MAX_LABEL_BYTES, path.text, "label_too_long")
        return values or None

    def _moment(self, raw: object, field: str) -> int | None:
        unit = self._fields.time_unit
        return None if unit is None else microseconds(check_time(raw, unit, field), unit)
