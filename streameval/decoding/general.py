"""The general decoder: reads every accepted form and explains why a record is invalid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import msgspec
import numpy as np

from streameval.decoding.columns import Decoded
from streameval.decoding.fields import EventFields
from streameval.decoding.invalid import InvalidEvent, Refusal
from streameval.decoding.lists import Engagement, InteractionReader, RecommendationReader
from streameval.decoding.paths import Path, TopLevel, compile_path
from streameval.decoding.times import microseconds, written_time
from streameval.decoding.values import Ids, label_text, positions, scores
from streameval.events import Event, Id, columns_of

_NONE = Engagement([], ())


class GeneralDecoder:
    """Decodes records through plain Python objects; defines what a record means.

    Raises:
        ConfigError: a configured path is invalid.
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
        """Decode a record; returns an `InvalidEvent` instead of raising."""
        record: dict[str, Any] = {}
        try:
            record = self._parse(value)
            return self._event(record)
        except Refusal as refusal:
            return msgspec.structs.replace(refusal.invalid, engaged=self._is_engaged(record))

    def columns(self, events: Sequence[Event], places: Sequence[int]) -> Decoded:
        """Decoded events as columns, in this order."""
        times = None if self._time is None else [event.ts for event in events]
        return Decoded(
            # `Decoded` has these two columns itself.
            batch=msgspec.structs.replace(columns_of(events), times=None, event_ids=None),
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
        outcome = _NONE
        if not self._shown_only:
            outcome = self._read_interactions(self._interactions.of(record))
        items = len(shown.items)
        return Event(
            recommendations=shown.items,
            interactions=outcome.items,
            user=_read(self._user, record, self._name.one, optional=True),
            ts=_read(self._time, record, self._moment),
            labels=tuple(
                label_text(path.of(record), path.text, self._fields.max_label_bytes)
                for path in self._dimensions
            ),
            positions=_read(self._positions, record, positions, items, optional=True),
            scores=shown.scores
            if self._scores is None
            else _read(self._scores, record, scores, items),
            baseline=_read(self._baseline, record, self._baseline_items),
            typed=outcome.typed,
            event_id=_read(self._event_id, record, self._name.one),
        )

    def _baseline_items(self, found: object, _: str) -> list[Id]:
        return self._read_baseline(found).items

    def _moment(self, written: object, field: str) -> int | None:
        unit = self._fields.time_unit
        return None if unit is None else microseconds(written_time(written, unit, field), unit)

    def _is_engaged(self, record: dict[str, Any]) -> bool:
        """Whether an invalid record has interactions in any form."""
        with suppress(Refusal):
            return not self._shown_only and bool(self._interactions.of(record))
        return False


def _optional(text: str | None, key: str, *, lists: bool = False) -> Path | None:
    return None if text is None else compile_path(text, key, lists=lists)


def _read(
    path: Path | None,
    record: dict[str, Any],
    read: Callable[..., Any],
    *more: object,
    optional: bool = False,
) -> Any:
    """Read the value at a path with `read(value, field, *more)`; None without a path."""
    found = None if path is None else path.of(record)
    if path is None or (found is None and optional):
        return None
    if found is None:
        raise Refusal("missing_field", f"{path.text} is absent or null")
    return read(found, path.text, *more)
