"""The decoder: record bytes to a batch of events, and to the records that are invalid."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from streameval.decoding.columns import Columns, concatenated
from streameval.decoding.fields import EventFields, check_fields
from streameval.decoding.general import GeneralDecoder
from streameval.decoding.invalid import InvalidEvent
from streameval.decoding.paths import FAILURES
from streameval.decoding.rows import RowDecoder, row_decoders
from streameval.events import Batch, Event
from streameval.events.ragged import Coded

_MOST_DOUBLINGS = 6


class Decoded(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Outcomes of the records of a batch; a place is a record's place in it.

    Attributes:
        batch: the events as columns, in the order of their records; those of a join as codes.
        places: of each event, ascending.
        times: event time of each event, microseconds since the epoch; None where the stream has
            no time.
        dimensions: values of labels and segments of each event; None where none are configured.
        event_ids: identity of each event; None where the stream has none.
        users: who saw the list of each event; None where nobody asks.
        invalid: place and reason of each invalid record; ascending.
        tombstones: places of the records that had no value, ascending.
    """

    batch: Batch | Coded
    places: Sequence[int]
    times: NDArray[np.int64] | None
    dimensions: Sequence[tuple[str, ...]] | None
    event_ids: Sequence[str] | None
    invalid: Sequence[tuple[int, InvalidEvent]]
    tombstones: Sequence[int]
    users: Sequence[str | None] | None = None

    @property
    def named(self) -> Batch:
        """The events with the ids themselves, not their numbers."""
        return self.batch.batch if isinstance(self.batch, Coded) else self.batch

    @property
    def engaged(self) -> int:
        """How many events have interactions."""
        if isinstance(self.batch, Coded):
            return int(np.count_nonzero(self.batch.interactions.lengths))
        return sum(map(bool, self.batch.interactions))

    def keep(self, rows: NDArray[np.bool_]) -> Decoded:
        """Only these events: one truth value for each; the places of the others vanish."""
        return _taken(self, np.flatnonzero(rows))


class Decoder:
    """Decodes records of any accepted form; compiled once from the configured fields.

    Records in a plain form (lists of ids, no objects) take one call into C; all others are read
    by the general decoder. Which one did it never shows in the result.

    `shown_only`: whether records hold what was shown and not what was done with it; then users are
    among the columns.

    Raises:
        ConfigError: the fields contradict each other, or a path is none.

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
        check_fields(fields, dimensions)
        self._general = GeneralDecoder(fields, dimensions, shown_only=shown_only)
        self._forms = row_decoders(fields, dimensions, shown_only=shown_only)
        self._sorter = Sorter(self._forms, self._general)

    def decode_many(self, values: Sequence[bytes | None]) -> Decoded:
        """All records of a batch as columns; the same content as one by one, and much faster."""
        found = self._sorter.sort(values)
        parts = self._parts(found)
        columns = concatenated([part for _, part in parts])
        decoded = Decoded(
            batch=columns.batch,
            places=_one_after_the_other([places for places, _ in parts]),
            times=columns.times,
            dimensions=columns.dimensions,
            event_ids=columns.event_ids,
            users=columns.users,
            invalid=found.invalid,
            tombstones=found.tombstones,
        )
        return decoded if len(parts) == 1 else _taken(decoded, np.argsort(decoded.places))

    def _parts(self, found: Found) -> list[tuple[Sequence[int], Columns]]:
        """Places and columns of each form that occurs; always at least one."""
        known = zip(self._forms, found.runs, found.rows, strict=True)
        parts = [
            (_one_after_the_other(runs), form.columns(rows)) for form, runs, rows in known if rows
        ]
        if found.events or not parts:
            parts.append((found.event_places, self._general.columns(found.events)))
        return parts


class Expectation:
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


class Found(msgspec.Struct):
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


class Sorter:
    """Tries the compiled forms where that is worth it, and the general decoder for the rest."""

    def __init__(self, forms: Sequence[RowDecoder], general: GeneralDecoder) -> None:
        self._forms = forms
        self._general = general
        self._expected = Expectation(len(forms))
        self._since = 0

    def sort(self, values: Sequence[bytes | None]) -> Found:
        """What each record is; none is lost, and within each kind they keep their order."""
        found = Found([[] for _ in self._forms], [[] for _ in self._forms])
        rest, place = iter(values), 0
        self._since = 0
        while place < len(values):
            if self._forms and self._expected.pause <= 0:
                place = self._run(values, rest, place, found)
            else:
                self._expected.pause -= 1
                self._other(next(rest), place, found)
                place += 1
        return found

    def _run(
        self, values: Sequence[bytes | None], rest: Iterator[Any], place: int, found: Found
    ) -> int:
        """Records of the expected form, and the one after them; returns the place after that."""
        form = self._expected.form
        rows, decode = found.rows[form], self._forms[form].decode
        before = len(rows)
        _extend(rows, decode, rest)
        end = place + len(rows) - before
        if end > place:
            found.runs[form].append(range(place, end))
            self._since += end - place
        if end < len(values):
            self._missed(values[end], end, found)
        return end + 1

    def _missed(self, value: bytes | None, place: int, found: Found) -> None:
        if self._other(value, place, found):
            self._expected.missed(since=self._since)
            self._since = 0

    def _other(self, value: bytes | None, place: int, found: Found) -> bool:
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


def _one_after_the_other(places: Sequence[Sequence[int]]) -> Sequence[int]:
    return places[0] if len(places) == 1 else list(chain.from_iterable(places))


def _taken(decoded: Decoded, rows: NDArray[np.intp]) -> Decoded:
    listed: list[int] = rows.tolist()
    places, dimensions, ids = decoded.places, decoded.dimensions, decoded.event_ids
    users = decoded.users
    return msgspec.structs.replace(
        decoded,
        batch=decoded.named.take(listed),
        places=[places[row] for row in listed],
        times=None if decoded.times is None else decoded.times[rows],
        dimensions=None if dimensions is None else [dimensions[row] for row in listed],
        event_ids=None if ids is None else [ids[row] for row in listed],
        users=None if users is None else [users[row] for row in listed],
    )


def _extend(rows: list[Any], decode: Callable[[Any], Any], rest: Iterator[Any]) -> None:
    # One loop in C for most batches; what was decoded before a failure stays in the list.
    try:
        rows.extend(map(decode, rest))
    except (TypeError, *FAILURES):  # a TypeError where there is no value
        return
