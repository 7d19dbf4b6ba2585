"""The fast decoder: records in their plain form, decoded and checked by one call into C."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from operator import attrgetter, contains
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from streameval.decoding.columns import Decoded
from streameval.decoding.fields import MAX_HISTORY, EventFields
from streameval.decoding.paths import is_plain
from streameval.decoding.times import KINDS, microsecond_column
from streameval.decoding.values import (
    MAX_ID_BYTES,
    MAX_LABEL_BYTES,
    Ids,
    LabelCache,
    label_texts,
    text_id,
)
from streameval.events import LARGEST_GAIN, LARGEST_RANK, Batch
from streameval.events.ids import IdKind
from streameval.events.rules import IGNORED, RESERVED
from streameval.events.times import outside_range
from streameval.statistics.kernel import match
from streameval.statistics.matching import Search

Form: TypeAlias = Literal["strings", "integers"]
"""JSON type of the ids in a list."""

INTEGER = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""64-bit integers; the general decoder handles larger ones."""

_PARALLEL, _OTHER_IDS = ("positions", "scores"), frozenset({"baseline", "history"})
_LISTS = (*_PARALLEL, *sorted(_OTHER_IDS))
"""Optional lists of a record: those as long as the list shown, and those of other items."""

_RANKS = list[Annotated[int, Meta(ge=1, le=LARGEST_RANK)]]

_TEXT = Ids("string")


class RowDecoder:
    """Decodes records of one form; a record that it refuses may still be valid in another.

    Attributes:
        decode: bytes -> row; raises one of `paths.FAILURES` for a record that the general decoder
            must decode.
    """

    def __init__(
        self,
        fields: EventFields,
        dimensions: Sequence[str],
        form: Form,
        row: type[msgspec.Struct],
        *,
        search: Search | None,
    ) -> None:
        self._search = search
        self._as_text = _TEXT if form == "integers" and fields.ids == "string" else None
        ids = ("recommendations",) if search is None else ("recommendations", "interactions")
        # As text, what losses ignore would be an id.
        self._raw_ids = () if self._as_text is None else ids
        self._kind: IdKind = "text" if fields.ids == "string" else "integer"
        self._unit = fields.time_unit if fields.time else None
        self._mapped = [name for name in _LISTS if getattr(fields, name) is not None]
        parallel = [name for name in self._mapped if name in _PARALLEL] + _item_slots(fields)
        self._rankers = _ranker_slots(fields)
        self._per_item = dict(zip(_item_slots(fields), fields.per_item or (), strict=True))
        self._has_event_id = fields.event_id is not None
        self._slots = _slots(dimensions)
        self._key = attrgetter(*self._slots) if self._slots else None
        single = len(self._slots) == 1
        self._texts = LabelCache(lambda value: label_texts((value,) if single else value))
        plain: Callable[[bytes], Any] = msgspec.json.Decoder(row).decode
        self.decode = _parallel(plain, parallel) if parallel else plain

    def columns(self, rows: Sequence[Any], places: Sequence[int]) -> Decoded:
        """Rows as columns, with the hits of their lists."""
        return Decoded(
            batch=self._batch(rows),
            places=places,
            dimensions=self._dimensions(rows),
            rankers=self._lists_of_rankers(rows),
        )

    def unsound(self, rows: Sequence[Any], batch: Batch) -> list[int]:
        """The indices of rows with padding, marks or times outside the range, ascending.

        The general decoder decodes them again, and says why they are invalid.
        """
        odd = set[int]() if batch.matches is None else set(batch.matches.odd.tolist())
        if batch.times is not None:
            odd.update(outside_range(batch.times).tolist())
        for name in self._raw_ids:
            lists = [getattr(row, name) for row in rows]
            if any(map(contains, lists, repeat(IGNORED))):
                odd.update(row for row, ids in enumerate(lists) if IGNORED in ids)
        for name in (*_OTHER_IDS.intersection(self._mapped), *self._rankers):
            pairs = enumerate(getattr(row, name) or () for row in rows)
            odd.update(at for at, ids in pairs if not RESERVED.isdisjoint(ids))
        return sorted(odd)

    def _times(self, rows: Sequence[Any]) -> NDArray[np.int64] | None:
        if self._unit is None:
            return None
        return microsecond_column([row.time for row in rows], self._unit)

    def _dimensions(self, rows: Sequence[Any]) -> list[tuple[str, ...]] | None:
        if self._key is None:
            return None
        return list(map(self._texts.__getitem__, map(self._key, rows)))

    def _event_ids(self, rows: Sequence[Any]) -> Sequence[Any] | None:
        if not self._has_event_id:
            return None
        return _TEXT.each([row.event_id for row in rows], "event_id")

    def _users(self, rows: Sequence[Any]) -> list[str | None] | None:
        users = [row.user for row in rows]
        if users.count(None) == len(users):
            return None
        if int in set(map(type, users)):
            users = [None if user is None else text_id(user, "user") for user in users]
        # Protobuf and many producers write an unknown user as an empty text.
        users = [user or None for user in users] if "" in users else users
        return users if any(users) else None

    def _interactions(self, rows: Sequence[Any]) -> Sequence[Any]:
        if self._search is None:
            return [()] * len(rows)
        return self._converted([row.interactions for row in rows])

    def _converted(self, lists: list[Any]) -> list[Any]:
        """Lists of ids, with integers as text if ids are strings."""
        if self._as_text is None:
            return lists
        text = self._as_text
        return [text.each(list_, "") if type(list_) is list else list_ for list_ in lists]

    def _batch(self, rows: Sequence[Any]) -> Batch:
        batch = Batch(
            recommendations=self._converted([row.recommendations for row in rows]),
            interactions=self._interactions(rows),
            positions=self._optional_column(rows, "positions"),
            scores=self._optional_column(rows, "scores"),
            baselines=self._other_ids(rows, "baseline"),
            histories=self._other_ids(rows, "history"),
            per_item=self._item_values(rows),
            users=self._users(rows),
            times=self._times(rows),
            event_ids=self._event_ids(rows),
        )
        depth, every = (self._search or Search()).of(batch)
        lists, interactions = batch.recommendations, batch.interactions
        matches = match(lists, interactions, self._kind, depth, every=every)
        return msgspec.structs.replace(batch, matches=matches)

    def _other_ids(self, rows: Sequence[Any], name: str) -> list[Any] | None:
        """A column of ids besides those shown."""
        column = self._optional_column(rows, name)
        return None if column is None else self._converted(column)

    def _lists_of_rankers(self, rows: Sequence[Any]) -> list[Any] | None:
        if not self._rankers:
            return None
        columns = [self._converted([getattr(row, slot) for row in rows]) for slot in self._rankers]
        return list(zip(*columns, strict=True))

    def _item_values(self, rows: Sequence[Any]) -> list[Any] | None:
        if not self._per_item:
            return None
        slots = self._per_item.items()
        column = [
            {name: values for slot, name in slots if (values := getattr(row, slot)) is not None}
            or None
            for row in rows
        ]
        return column if any(column) else None

    def _optional_column(self, rows: Sequence[Any], name: str) -> Any:
        column = [getattr(row, name) for row in rows] if name in self._mapped else []
        return column if any(value is not None for value in column) else None


def row_decoders(
    fields: EventFields, dimensions: Sequence[str], search: Search | None
) -> list[RowDecoder]:
    """A decoder for each plain form of the configured fields, the most common first.

    `search`: how lists are searched for hits; None if records hold recommendations only.
    """
    forms: tuple[Form, ...] = ("strings", "integers") if fields.ids == "string" else ("integers",)
    rows = [(form, _row_of(fields, dimensions, form, shown_only=search is None)) for form in forms]
    return [
        RowDecoder(fields, dimensions, form, row, search=search)
        for form, row in rows
        if row is not None
    ]


def _parallel(plain: Callable[[bytes], Any], names: Sequence[str]) -> Callable[[bytes], Any]:
    def decode(value: bytes) -> Any:
        row = plain(value)
        items = len(row.recommendations)
        columns = [getattr(row, name) for name in names]
        if any(column is not None and len(column) != items for column in columns):
            message = "positions, scores or per_item differ in length from the recommendations"
            raise msgspec.ValidationError(message)
        return row

    return decode


def _item_slots(fields: EventFields) -> list[str]:
    """The attributes of a row that hold the values of per_item, in order."""
    return [f"per_item_{number}" for number in range(len(fields.per_item or ()))]


def _ranker_slots(fields: EventFields) -> list[str]:
    """The attributes of a row that hold the lists of the rankers, in order."""
    return [f"ranker_{number}" for number in range(len(fields.ranker_names))]


def _slots(dimensions: Sequence[str]) -> tuple[str, ...]:
    """The attributes of a row that hold the dimensions, in order."""
    return tuple(f"dimension_{number}" for number in range(len(dimensions)))


def _row_of(
    fields: EventFields,
    dimensions: Sequence[str],
    form: Form,
    *,
    shown_only: bool = False,
) -> type[msgspec.Struct] | None:
    """A Struct of the configured fields, in the types of one form.

    Its attributes: recommendations, user, dimension_0, ..., interactions unless `shown_only`, and,
    if configured, time, event_id, positions, scores, baseline, history, per_item_0, ... and
    ranker_0, ... Returns None if a path is nested, two fields share a path, or interactions need
    a type: the general decoder decodes such records.
    """
    paths = _paths(fields, dimensions)
    kinds = _kinds(fields, dimensions, form)
    if shown_only:
        kinds = [kind for kind in kinds if kind[0] != "interactions"]
        del paths["interactions"]
    is_typed = fields.types is not None and not shown_only
    is_odd = len(set(paths.values())) < len(paths) or not all(map(is_plain, paths.values()))
    if is_typed or is_odd:
        return None
    return msgspec.defstruct("Row", kinds, rename=paths, gc=False, frozen=True)


def _paths(fields: EventFields, dimensions: Sequence[str]) -> dict[str, str]:
    mapped = {
        "recommendations": fields.recommendations,
        "interactions": fields.interactions,
        "time": fields.time,
        "event_id": fields.event_id,
        "positions": fields.positions,
        "scores": fields.scores,
        "baseline": fields.baseline,
        "history": fields.history,
        "user": fields.user,
    }
    named = zip(_slots(dimensions), dimensions, strict=True)
    slots = {slot: fields.labels.get(name, name) for slot, name in named}
    slots |= zip(_item_slots(fields), (fields.per_item or {}).values(), strict=True)
    slots |= zip(_ranker_slots(fields), (fields.rankers or {}).values(), strict=True)
    return {name: path for name, path in (mapped | slots).items() if path is not None}


def _kinds(fields: EventFields, dimensions: Sequence[str], form: Form) -> list[tuple[Any, ...]]:
    text, item_kind = short_text(MAX_ID_BYTES), _item_id(form)
    required = {
        "recommendations": _ids(item_kind, fields.max_recommendations),
        "interactions": _interactions(fields, form),
        "time": KINDS[fields.time_unit] if fields.time_unit else None,
        "event_id": short_text(MAX_ID_BYTES, 1) | INTEGER if fields.event_id else None,
        "scores": list[float] if fields.scores else None,
        "baseline": _ids(item_kind, fields.max_recommendations) if fields.baseline else None,
        **dict.fromkeys(_ranker_slots(fields), _ids(item_kind, fields.max_recommendations)),
    }
    # `LabelCache` converts integers to text once per distinct value.
    label = short_text(MAX_LABEL_BYTES) | INTEGER | None
    slots = [(slot, label, None) for slot in _slots(dimensions)]
    mapped = [(name, kind) for name, kind in required.items() if kind is not None]
    ranks = [("positions", _RANKS | None, None)] if fields.positions else []
    history: Any = _ids(item_kind, MAX_HISTORY)
    histories = [("history", history | None, None)] if fields.history else []
    word: Any = short_text(MAX_LABEL_BYTES)
    values = [(slot, list[float | word | None] | None, None) for slot in _item_slots(fields)]
    return [*mapped, *ranks, *histories, *values, ("user", text | INTEGER | None, None), *slots]


def short_text(most: int, least: int = 0) -> Any:
    """Text that has at most `most` bytes for certain; the general decoder measures longer text.

    msgspec counts characters, and a character has up to four bytes.
    """
    return Annotated[str, Meta(min_length=least, max_length=most // 4)]


def _item_id(form: Form) -> Any:
    """An item id; an empty text is padding, which the general decoder removes."""
    return short_text(MAX_ID_BYTES, 1) if form == "strings" else INTEGER


def _ids(kind: Any, longest: int) -> Any:
    return Annotated[list[kind], Meta(max_length=longest)]


def _interactions(fields: EventFields, form: Form) -> Any:
    most = fields.max_interactions
    if fields.ids == "integer":
        return _ids(INTEGER, most)  # keys of JSON objects are text
    gain = Annotated[float, Meta(ge=-LARGEST_GAIN, le=LARGEST_GAIN)]
    text: Any = short_text(MAX_ID_BYTES, 1)
    gains = Annotated[dict[text, gain], Meta(max_length=most)]
    return _ids(text if form == "strings" else text | INTEGER, most) | gains
