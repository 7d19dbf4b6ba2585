"""The general decoder: reads every accepted form, and says what is wrong with any other."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec
import numpy as np

from streameval.decoding.columns import Decoded
from streameval.decoding.fields import EventFields
from streameval.decoding.invalid import InvalidEvent, Refusal
from streameval.decoding.lists import InteractionReader, Outcome, RecommendationReader
from streameval.decoding.paths import Path, TopLevel, compile_path
from streameval.decoding.times import microseconds, written_time
from streameval.decoding.values import Ids, label_text, positions, scores
from streameval.events import Event, Id, columns_of

_NONE = Outcome([], ())


class GeneralDecoder:
    """Decodes records through plain Python objects: the reference of what a record means.

    Raises:
        ConfigError: a configured path makes no sense.
    """

    def __init__(
        self, fields: EventFields, dimensions: Sequence[str], *, shown_only: bool = False
    ) -> None:
        self._fields = fields
        self._name = Ids("string", fields.max_id_bytes)
        self._shown_only = shown_only
        self._recommendations = compile_path(fields.recommendations, "recommendations", lists=True)
        self._interactions = compile_path(fields.interactions, "interactions", lists=True)
        self._user = compile_path(fields.user, "user")
        self._time = _optional(fields.time, "time")
        self._event_id = _optional(fields.event_id, "event_id")
        self._positions = _optional(fields.positions, "positions", lists=True)
        self._scores = _optional(fields.scores, "scores", lists=True)
        self._baseline = _optional(fields.baseline, "baseline", lists=True)
        self._dimensions = [
            compile_path(fields.labels.get(x, x), f"labels.{x}") for x in dimensions
        ]
        self._read_recommendations = RecommendationReader(fields).read
        self._read_baseline = RecommendationReader(fields, "baseline").read
        self._read_interactions = InteractionReader(fields).read
        self._parse = TopLevel(path.key for path in self._paths()).parse

    def decode(self, value: bytes) -> Event | InvalidEvent:
        """The event, or why there is none. Never raises for what the bytes hold."""
        record: dict[str, Any] = {}
        try:
            record = self._parse(value)
            return self._event(record)
        except Refusal as refusal:
            return msgspec.structs.replace(refusal.invalid, engaged=self._is_engaged(record))

    def columns(self, events: Sequence[Event], places: Sequence[int]) -> Decoded:
        """What `decode` found, as columns, in their order."""
        times = None if self._time is None else [event.ts for event in events]
        return Decoded(
            batch=columns_of(events),
            places=places,
            times=None if times is None else np.array(times, dtype=np.int64),
            dimensions=[event.labels for event in events] if self._dimensions else None,
            event_ids=None if self._event_id is None else [str(each.event_id) for each in events],
        )

    def _paths(self) -> list[Path]:
        optional = (self._time, self._event_id, self._positions, self._scores, self._baseline)
        mapped = [path for path in optional if path is not None]
        outcome = [] if self._shown_only else [self._interactions]
        return [self._recommendations, *outcome, self._user, *mapped, *self._dimensions]

    def _event(self, record: dict[str, Any]) -> Event:
        shown = self._read_recommendations(self._recommendations.of(record))
        outcome = self._outcome(record)
        user = self._user.of(record)
        return Event(
            recommendations=shown.items,
            interactions=outcome.items,
            user=None if user is None else self._name.one(user, self._user.text),
            ts=self._ts(record),
            labels=tuple(
                label_text(path.of(record), path.text, self._fields.max_label_bytes)
                for path in self._dimensions
            ),
            positions=self._ranks(record, len(shown.items)),
            scores=shown.scores if self._scores is None else self._numbers(record, shown.items),
            baseline=self._expected(record),
            typed=outcome.typed,
            event_id=self._identity(record),
        )

    def _is_engaged(self, record: dict[str, Any]) -> bool:
        """Whether an invalid record holds interactions, of any form."""
        with suppress(Refusal):
            return not self._shown_only and bool(self._interactions.of(record))
        return False

    def _outcome(self, record: dict[str, Any]) -> Outcome:
        if self._shown_only:
            return _NONE
        return self._read_interactions(self._interactions.of(record))

    def _ts(self, record: dict[str, Any]) -> int | None:
        if self._time is None or self._fields.time_unit is None:
            return None
        written = _required(self._time, record)
        unit = self._fields.time_unit
        return microseconds(written_time(written, unit, self._time.text), unit)

    def _ranks(self, record: dict[str, Any], items: int) -> list[int] | None:
        found = None if self._positions is None else self._positions.of(record)
        if self._positions is None or found is None:
            return None
        return positions(found, items, self._positions.text)

    def _numbers(self, record: dict[str, Any], items: Sequence[Id]) -> list[float] | None:
        if self._scores is None:
            return None
        return scores(_required(self._scores, record), len(items), self._scores.text)

    def _expected(self, record: dict[str, Any]) -> list[Id] | None:
        if self._baseline is None:
            return None
        return self._read_baseline(_required(self._baseline, record)).items

    def _identity(self, record: dict[str, Any]) -> str | None:
        if self._event_id is None:
            return None
        return str(self._name.one(_required(self._event_id, record), self._event_id.text))


def _optional(text: str | None, key: str, *, lists: bool = False) -> Path | None:
    return None if text is None else compile_path(text, key, lists=lists)


def _required(path: Path, record: dict[str, Any]) -> Any:
    found = path.of(record)
    if found is None:
        raise Refusal("missing_field", f"{path.text} is absent or null")
    return found
