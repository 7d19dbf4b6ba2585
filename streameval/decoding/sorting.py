"""Chooses the decoder for each record, and keeps the order of the log."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from streameval.decoding.general import GeneralDecoder
from streameval.decoding.invalid import InvalidEvent
from streameval.decoding.paths import FAILURES
from streameval.decoding.rows import RowDecoder
from streameval.events import Event

_MOST_DOUBLINGS = 6


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


def _extend(rows: list[Any], decode: Callable[[Any], Any], rest: Iterator[Any]) -> None:
    # One loop in C for most batches; what was decoded before a failure stays in the list.
    try:
        rows.extend(map(decode, rest))
    except (TypeError, *FAILURES):  # a TypeError where there is no value
        return
