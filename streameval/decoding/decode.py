"""The decoder: decodes record bytes to a batch of events; reports invalid records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from operator import itemgetter
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from streameval.decoding.columns import Decoded
from streameval.decoding.fields import EventFields
from streameval.decoding.general import DecodedEvent, GeneralDecoder
from streameval.decoding.invalid import InvalidEvent
from streameval.decoding.paths import FAILURES
from streameval.decoding.rows import row_decoders
from streameval.decoding.scan import record_scanner
from streameval.events import Batch
from streameval.events.batch import IntArray
from streameval.statistics.matching import Search, matched

_MOST_DOUBLINGS = 6
_WHOLE = Search()


class _DecodedRecords(msgspec.Struct):
    """The records of a batch by kind.

    Attributes:
        rows: decoded rows of each compiled form.
        runs: places of these rows, as ranges in ascending order.
    """

    rows: list[list[Any]]
    runs: list[list[Sequence[int]]]
    events: list[DecodedEvent] = []
    event_places: list[int] = []
    invalid: list[tuple[int, InvalidEvent]] = []
    tombstones: list[int] = []

    def sort(self) -> None:
        """Sort events and invalid records by their places."""
        order = np.argsort(self.event_places).tolist()
        self.events = [self.events[at] for at in order]
        self.event_places = [self.event_places[at] for at in order]
        self.invalid.sort(key=itemgetter(0))


class Decoder:
    """Decodes records of any accepted form; compiled once from the configured fields.

    The compiled scanner reads plain records (lists of ids, no objects) into columns; without it,
    and with fields that it does not read, they take one call into C each. The general decoder
    decodes all others, with the same result.

    `search`: how lists are searched for hits; None if records hold recommendations only.

    Raises:
        ConfigError: a configured path is invalid.

    Example:
        >>> decoder = Decoder(EventFields(), ["variant"])
        >>> records = [b'{"recommendations": ["a"], "interactions": [7], "variant": "b"}', b"[]"]
        >>> found = decoder.decode_many(records)
        >>> found.batch.interactions, found.dimensions, found.invalid[0][1].reason
        ([['7']], [('b',)], 'not_an_object')
    """

    def __init__(
        self, fields: EventFields, dimensions: Sequence[str], search: Search | None = _WHOLE
    ) -> None:
        self._general = GeneralDecoder(fields, dimensions, shown_only=search is None)
        self._forms = row_decoders(fields, dimensions, search)
        self._prediction = _FormPrediction(len(self._forms))
        self._scanner = record_scanner(fields, dimensions, search, self._batch_of)

    def decode_many(self, values: Sequence[bytes | None]) -> Decoded:
        """Decode a batch of records to columns."""
        scanner = self._scanner
        if scanner is None or scanner.pauses():
            return self._decoded(values)
        decoded, places = scanner.scan(values)
        if not places.size:
            return decoded
        others = _moved(self._decoded([values[place] for place in places.tolist()]), places)
        if others.places:
            # Their hits and lists in the form of the plain ones, none of which is read to join.
            valid: list[Any] = [values[place] for place in others.places]
            batch = scanner.with_lists(matched(others.batch, scanner.search), valid)
            decoded = decoded.joined(replace(others, batch=batch))
            decoded = decoded.take(np.argsort(decoded.places))
        return replace(decoded, invalid=others.invalid, tombstones=others.tombstones)

    def _batch_of(self, values: Sequence[bytes]) -> Batch:
        return self._decoded(values).batch

    def _decoded(self, values: Sequence[bytes | None]) -> Decoded:
        """Decode records without the scanner."""
        records = self._sorted(values)
        parts = self._parts(values, records)
        decoded = parts[0].joined(*parts[1:])
        if len(parts) > 1:
            decoded = decoded.take(np.argsort(decoded.places))
        return replace(decoded, invalid=records.invalid, tombstones=records.tombstones)

    def _sorted(self, values: Sequence[bytes | None]) -> _DecodedRecords:
        """Decode and sort records by kind; within a kind they keep their order."""
        records = _DecodedRecords([[] for _ in self._forms], [[] for _ in self._forms])
        rest, place, since = iter(values), 0, 0
        while place < len(values):
            if not self._forms or self._prediction.pause > 0:
                self._prediction.pause -= 1
                self._decode_one(next(rest), place, records)
                place += 1
                continue
            end = self._run(rest, place, records)
            since += end - place
            if end < len(values) and self._decode_one(values[end], end, records):
                self._prediction.missed(since=since)
                since = 0
            place = end + 1
        return records

    def _run(self, rest: Iterator[Any], place: int, records: _DecodedRecords) -> int:
        """Decode records while they have the predicted form; returns the place of the next.

        Consumes the next one from `rest` as well.
        """
        form = self._prediction.form
        rows, decode = records.rows[form], self._forms[form].decode
        before = len(rows)
        # Most batches are one loop in C; rows decoded before a failure stay in the list.
        with suppress(TypeError, *FAILURES):  # a tombstone raises TypeError
            rows.extend(map(decode, rest))
        end = place + len(rows) - before
        if end > place:
            records.runs[form].append(range(place, end))
        return end

    def _decode_one(self, value: bytes | None, place: int, records: _DecodedRecords) -> bool:
        """Decode a record with the general decoder; returns whether it is valid."""
        if value is None:
            records.tombstones.append(place)
            return False
        event = self._general.decode(value)
        if isinstance(event, InvalidEvent):
            records.invalid.append((place, event))
            return False
        records.events.append(event)
        records.event_places.append(place)
        return True

    def _parts(self, values: Sequence[bytes | None], records: _DecodedRecords) -> list[Decoded]:
        """The columns of each form that occurs; at least one part."""
        parts = []
        for form, runs, rows in zip(self._forms, records.runs, records.rows, strict=True):
            if rows:
                places = runs[0] if len(runs) == 1 else list(chain.from_iterable(runs))
                decoded = form.columns(rows, places)
                odd = form.unsound(rows, decoded.batch)
                parts.append(self._sound(decoded, odd, values, records))
        records.sort()
        if records.events or not parts:
            parts.append(self._general.columns(records.events, records.event_places))
        return parts

    def _sound(
        self,
        decoded: Decoded,
        odd: Sequence[int],
        values: Sequence[bytes | None],
        records: _DecodedRecords,
    ) -> Decoded:
        """Give rows that may break a rule of lists to the general decoder; returns the others."""
        if not odd:
            return decoded
        for row in odd:
            place = decoded.places[row]
            self._decode_one(values[place], place, records)
        return decoded.take(np.delete(np.arange(len(decoded.places)), odd))


def _moved(decoded: Decoded, places: IntArray) -> Decoded:
    """What was decoded of the records at these places of a batch."""
    at = places.tolist()
    return replace(
        decoded,
        places=[at[place] for place in decoded.places],
        invalid=[(at[place], event) for place, event in decoded.invalid],
        tombstones=[at[place] for place in decoded.tombstones],
    )


class _FormPrediction:
    """Predicts the form of the next record; a wrong prediction only costs time.

    Two consecutive records of another form switch the prediction to the next form. If no form
    fits, prediction pauses for an increasing number of records, up to 64.
    """

    __slots__ = ("_forms", "_misses", "form", "pause")

    def __init__(self, forms: int) -> None:
        self._forms = forms
        self._misses = 0
        self.form = 0
        self.pause = 0

    def missed(self, *, since: int) -> None:
        """Note a valid record of another form, after `since` records of the predicted one."""
        self._misses = 1 if since else self._misses + 1
        if self._misses > 1:
            self.form = (self.form + 1) % self._forms
        if self._misses > self._forms:
            self.pause = 2 ** min(self._misses - self._forms, _MOST_DOUBLINGS)
