"""The decoder: record bytes to a batch of events, and to the records that are invalid."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

import msgspec
import numpy as np

from streameval.decoding.columns import Decoded, concatenated
from streameval.decoding.fields import EventFields
from streameval.decoding.general import GeneralDecoder
from streameval.decoding.invalid import InvalidEvent
from streameval.decoding.paths import FAILURES
from streameval.decoding.rows import row_decoders
from streameval.events import Event

_MOST_DOUBLINGS = 6


class _Found(msgspec.Struct):
    """The records of a batch by what they are; places are places in the batch.

    Attributes:
        runs: for each compiled form the places of those, as ranges in ascending order.
    """

    rows: list[list[Any]]
    runs: list[list[range]]
    events: list[Event] = []
    event_places: list[int] = []
    invalid: list[tuple[int, InvalidEvent]] = []
    tombstones: list[int] = []


class Decoder:
    """Decodes records of any accepted form; compiled once from the configured fields.

    Records in a plain form (lists of ids, no objects) take one call into C; all others are read
    by the general decoder. Which one did it never shows in the result.

    `shown_only`: whether records hold what was shown and not what was done with it.

    Raises:
        ConfigError: a configured path makes no sense.

    Example:
        >>> decoder = Decoder(EventFields(), ["variant"])
        >>> records = [b'{"recommendations": ["a"], "interactions": [7], "variant": "b"}', b"[]"]
        >>> found = decoder.decode_many(records)
        >>> found.batch.interactions, found.dimensions, found.invalid[0][1].reason
        ([['7']], [('b',)], 'not_an_object')
    """

    def __init__(
        self, fields: EventFields, dimensions: Sequence[str], *, shown_only: bool = False
    ) -> None:
        self._general = GeneralDecoder(fields, dimensions, shown_only=shown_only)
        self._forms = row_decoders(fields, dimensions, shown_only=shown_only)
        self._expected = _Expectation(len(self._forms))

    def decode_many(self, values: Sequence[bytes | None]) -> Decoded:
        """All records of a batch as columns; the same content as one by one, and much faster."""
        found = self._sorted(values)
        parts = self._parts(found)
        decoded = concatenated(parts)
        if len(parts) > 1:
            decoded = decoded.take(np.argsort(decoded.places))
        return msgspec.structs.replace(decoded, invalid=found.invalid, tombstones=found.tombstones)

    def _sorted(self, values: Sequence[bytes | None]) -> _Found:
        """What each record is; none is lost, and within each kind they keep their order."""
        found = _Found([[] for _ in self._forms], [[] for _ in self._forms])
        rest, place, since = iter(values), 0, 0
        while place < len(values):
            if not self._forms or self._expected.pause > 0:
                self._expected.pause -= 1
                self._other(next(rest), place, found)
                place += 1
                continue
            end = self._run(rest, place, found)
            since += end - place
            if end < len(values) and self._other(values[end], end, found):
                self._expected.missed(since=since)
                since = 0
            place = end + 1
        return found

    def _run(self, rest: Iterator[Any], place: int, found: _Found) -> int:
        """Records of the expected form, and where they end; the one after them is taken too."""
        form = self._expected.form
        rows, decode = found.rows[form], self._forms[form].decode
        before = len(rows)
        # One loop in C for most batches; what was decoded before a failure stays in the list.
        with suppress(TypeError, *FAILURES):  # a TypeError where there is no value
            rows.extend(map(decode, rest))
        end = place + len(rows) - before
        if end > place:
            found.runs[form].append(range(place, end))
        return end

    def _other(self, value: bytes | None, place: int, found: _Found) -> bool:
        """A record for the general decoder; whether it is valid."""
        if value is None:
            found.tombstones.append(place)
            return False
        event = self._general.decode(value)
        if isinstance(event, InvalidEvent):
            found.invalid.append((place, event))
            return False
        found.events.append(event)
        found.event_places.append(place)
        return True

    def _parts(self, found: _Found) -> list[Decoded]:
        """Columns of each form that occurs; always at least one."""
        known = zip(self._forms, found.runs, found.rows, strict=True)
        parts = [
            form.columns(rows, runs[0] if len(runs) == 1 else list(chain.from_iterable(runs)))
            for form, runs, rows in known
            if rows
        ]
        if found.events or not parts:
            parts.append(self._general.columns(found.events, found.event_places))
        return parts


class _Expectation:
    """Which of the compiled forms the next record is tried in; a guess changes speed only.

    A single record of another form changes nothing; two in a row, and the next form is tried;
    when none fits, trying pauses for longer and longer, up to 64 records.
    """

    __slots__ = ("_forms", "_misses", "form", "pause")

    def __init__(self, forms: int) -> None:
        self._forms = forms
        self._misses = 0
        self.form = 0
        self.pause = 0

    def missed(self, *, since: int) -> None:
        """A valid record had another form; `since` so many before it had the one tried."""
        self._misses = 1 if since else self._misses + 1
        if self._misses > 1:
            self.form = (self.form + 1) % self._forms
        if self._misses > self._forms:
            self.pause = 2 ** min(self._misses - self._forms, _MOST_DOUBLINGS)
