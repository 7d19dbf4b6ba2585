"""From record bytes to events, whatever the bytes are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from streameval.errors import ConfigError
from streameval.events import Event
from streameval.pipeline.fields import EventFields
from streameval.pipeline.general import GeneralDecoder
from streameval.pipeline.invalid import InvalidEvent
from streameval.pipeline.parsing import FAILURES
from streameval.pipeline.rows import RowDecoder, Slice, event_slices

_LONGEST_PAUSE = 64
"""So many records of another form, at most, before the plain form is tried again."""


class Decoded(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the records of a batch.

    Attributes:
        slices: events as columns, by label values; label values may come several times.
        invalid: place in the batch, and why it is no event.
        tombstones: how many records had no value.
        valid: how many records became events.
        latest: largest event time, microseconds since the epoch; None where there is none.
    """

    slices: Sequence[Slice]
    invalid: Sequence[tuple[int, InvalidEvent]]
    tombstones: int
    valid: int
    latest: int | None


class _Found(msgspec.Struct):
    rows: list[Any] = []
    events: list[Event] = []
    invalid: list[tuple[int, InvalidEvent]] = []
    tombstones: int = 0


class Decoder:
    """Decodes records of any accepted form; compiled once from the configured fields.

    Records in the plain form (ids as strings, no objects) take one call into C; all others are
    read by the general decoder. Which one did it never shows in the result.

    Args:
        fields: where in a record everything lies.
        labels: names of the labels, in the order of `Event.labels`.

    Raises:
        ConfigError: the fields contradict each other, or a path is none.

    Example:
        >>> decoder = Decoder(EventFields(), ["variant"])
        >>> decoder.decode(b'{"recommendations": ["a"], "interactions": [7], "variant": "b"}')
        Event(recommendations=['a'], interactions=['7'], ... labels=('b',), ...)
        >>> decoder.decode(b"[]").reason
        'not_an_object'
    """

    def __init__(self, fields: EventFields, labels: Sequence[str]) -> None:
        _check(fields, labels)
        self._general = GeneralDecoder(fields, labels)
        self._rows = RowDecoder(fields, labels)
        self._pause = 0
        self._next_pause = 1
        self._rows_before = 0

    def decode(self, value: bytes) -> Event | InvalidEvent:
        """The event, or why there is none. Never raises for what the bytes hold."""
        if self._rows.decode is None:
            return self._general.decode(value)
        try:
            row = self._rows.decode(value)
        except FAILURES:
            return self._general.decode(value)
        return self._rows.event(row)

    def decode_many(self, values: Sequence[bytes | None]) -> Decoded:
        """All records of a batch as columns; the same content as one by one, and much faster."""
        found = self._sort(values)
        times = [event.ts for event in found.events if event.ts is not None]
        latest = self._rows.latest(found.rows)
        return Decoded(
            slices=[*self._rows.slices(found.rows), *event_slices(found.events)],
            invalid=found.invalid,
            tombstones=found.tombstones,
            valid=len(found.rows) + len(found.events),
            latest=max(times if latest is None else [*times, latest], default=None),
        )

    def _sort(self, values: Sequence[bytes | None]) -> _Found:
        found, decode = _Found(), self._rows.decode
        self._rows_before = 0
        for place, value in enumerate(values):
            if value is None:
                found.tombstones += 1
            elif decode is None or self._pause:
                self._pause -= self._pause > 0
                self._decode_generally(value, place, found)
            else:
                try:
                    found.rows.append(decode(value))
                except FAILURES:
                    self._fall_back(value, place, found)
        return found

    def _fall_back(self, value: bytes, place: int, found: _Found) -> None:
        if not self._decode_generally(value, place, found):
            return
        again = len(found.rows) == self._rows_before
        self._next_pause = min(2 * self._next_pause, _LONGEST_PAUSE) if again else 1
        self._pause = self._next_pause
        self._rows_before = len(found.rows)

    def _decode_generally(self, value: bytes, place: int, found: _Found) -> bool:
        event = self._general.decode(value)
        if isinstance(event, InvalidEvent):
            found.invalid.append((place, event))
            return False
        found.events.append(event)
        return True


def _check(fields: EventFields, labels: Sequence[str]) -> None:
    if (fields.time is None) != (fields.time_unit is None):
        problem = "give time and time_unit (s, ms, us or iso8601) together, or neither"
        raise ConfigError("[event]", "time_unit" if fields.time else "time", problem)
    if len(set(labels)) < len(labels):
        raise ConfigError("labels", "", f"{list(labels)} names a label twice")
    for key in ("max_recommendations", "max_interactions"):
        if getattr(fields, key) < 1:
            problem = f"found {getattr(fields, key)}; at least 1 is needed"
            raise ConfigError("[event]", key, problem)
    for name in fields.labels:
        if name not in labels:
            problem = f"is not among labels = {list(labels)}; add it there or leave it out here"
            raise ConfigError("[event]", f"labels.{name}", problem)
