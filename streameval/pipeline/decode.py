"""From record bytes to events, whatever the bytes are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec

from streameval.events import Event
from streameval.pipeline.expectation import Expectation
from streameval.pipeline.fields import EventFields, check_fields
from streameval.pipeline.general import GeneralDecoder
from streameval.pipeline.invalid import InvalidEvent
from streameval.pipeline.parsing import FAILURES
from streameval.pipeline.rows import RowDecoder, Slice, event_slices
from streameval.pipeline.schema import forms


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
    rows: list[list[Any]]
    events: list[Event] = []
    invalid: list[tuple[int, InvalidEvent]] = []
    tombstones: int = 0
    before: int = 0


_Reading: TypeAlias = tuple[Callable[[bytes], Any] | None, Callable[[Any], None]]


class Decoder:
    """Decodes records of any accepted form; compiled once from the configured fields.

    Records in a plain form (lists of ids, no objects) take one call into C; all others are read
    by the general decoder. Which one did it never shows in the result.

    Args:
        fields: where in a record everything lies.
        labels: names of the labels, in the order of `Event.labels`.

    Raises:
        ConfigError: the fields contradict each other, or a path is none.

    Example:
        >>> decoder = Decoder(EventFields(), ["variant"])
        >>> decoder.decode(b'{"recommendations": ["a"], "interactions": [7], "variant": "b"}')
        Event(recommendations=['a'], interactions=['7'], labels=('b',))
        >>> decoder.decode(b"[]").reason
        'not_an_object'
    """

    def __init__(self, fields: EventFields, labels: Sequence[str]) -> None:
        check_fields(fields, labels)
        self._general = GeneralDecoder(fields, labels)
        compiled = [RowDecoder(fields, labels, form) for form in forms(fields)]
        self._forms = [rows for rows in compiled if rows.decode is not None]
        self._expected = Expectation(len(self._forms))

    def decode(self, value: bytes) -> Event | InvalidEvent:
        """The event, or why there is none. Never raises for what the bytes hold."""
        decode, form = (self._forms[0].decode, self._forms[0]) if self._forms else (None, None)
        if decode is None or form is None:
            return self._general.decode(value)
        try:
            return form.event(decode(value))
        except FAILURES:
            return self._general.decode(value)

    def decode_many(self, values: Sequence[bytes | None]) -> Decoded:
        """All records of a batch as columns; the same content as one by one, and much faster."""
        found = self._sort(values)
        sorted_rows = list(zip(self._forms, found.rows, strict=True))
        times = [event.ts for event in found.events]
        times += [form.latest(rows) for form, rows in sorted_rows]
        slices = [each for form, rows in sorted_rows for each in form.slices(rows)]
        return Decoded(
            slices=[*slices, *event_slices(found.events)],
            invalid=found.invalid,
            tombstones=found.tombstones,
            valid=sum(map(len, found.rows)) + len(found.events),
            latest=max((time for time in times if time is not None), default=None),
        )

    def _sort(self, values: Sequence[bytes | None]) -> _Found:
        found, expected = _Found([[] for _ in self._forms]), self._expected
        decode, add = self._form(found)
        for place, value in enumerate(values):
            if value is None:
                found.tombstones += 1
            elif decode is None or expected.pause > 0:
                expected.pause -= 1
                self._decode_generally(value, place, found)
            else:
                try:
                    add(decode(value))
                except FAILURES:
                    decode, add = self._fall_back(value, place, found)
        return found

    def _fall_back(self, value: bytes, place: int, found: _Found) -> _Reading:
        if self._decode_generally(value, place, found):
            self._expected.missed(since=len(found.rows[self._expected.form]) - found.before)
            found.before = len(found.rows[self._expected.form])
        return self._form(found)

    def _form(self, found: _Found) -> _Reading:
        if not self._forms:
            return None, found.events.append
        form = self._expected.form
        return self._forms[form].decode, found.rows[form].append

    def _decode_generally(self, value: bytes, place: int, found: _Found) -> bool:
        event = self._general.decode(value)
        if isinstance(event, InvalidEvent):
            found.invalid.append((place, event))
            return False
        found.events.append(event)
        return True
