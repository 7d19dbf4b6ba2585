"""Interactions: kept by event time until their lists are counted, and deduplicated."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

import msgspec
import numpy as np
from msgspec.msgpack import Ext

from streameval.engine.clock import NEVER
from streameval.engine.dedup import SeenIds
from streameval.events import Id
from streameval.join.bucket import portable, restored
from streameval.join.interactions import InteractionColumns
from streameval.windows.sections import Section, next_version

PREFIX: Final = "~join/reported/"
_BYTES: Final = 300
"""Of one interaction besides its texts."""


class Reported(NamedTuple):
    """One interaction that counts.

    Attributes:
        key: id of the list, or the user.
    """

    time: int
    key: str
    item: Id
    type: str | None
    gain: float
    log: int
    offset: int


class _Saved(NamedTuple):
    time: int
    key: str
    item: str | int | Ext
    type: str | None
    gain: float
    log: int
    offset: int


class _Bucket:
    __slots__ = ("found", "version")

    def __init__(self, found: list[Reported]) -> None:
        self.found = found
        self.version = next_version()


class ReportedShelf:
    """Interactions by buckets of event time; in each in the order of their logs.

    `width`: span of event time of a bucket, microseconds.
    """

    def __init__(self, width: int) -> None:
        self.size = 0
        self._width = width
        self._buckets: dict[int, _Bucket] = {}

    def __len__(self) -> int:
        return sum(len(bucket.found) for bucket in self._buckets.values())

    def extend(self, reported: Iterable[Reported]) -> None:
        """Keep more."""
        version, buckets, width = next_version(), self._buckets, self._width
        for each in reported:
            number = each.time // width
            bucket = buckets.get(number)
            if bucket is None:
                bucket = buckets[number] = _Bucket([])
            bucket.found.append(each)
            bucket.version = version
            self.size += _BYTES + len(each.key)

    def between(self, begin: int, end: int, most: float = math.inf) -> list[Reported]:
        """Those in [begin, end), by time; then by log, then as they came.

        `most`: where there are more, at least the first so many and one.
        """
        found: list[Reported] = []
        for number in sorted(self._buckets):
            if (number + 1) * self._width > begin and number * self._width < end:
                own = self._buckets[number].found
                found += [each for each in own if begin <= each.time < end]
                if len(found) > most:
                    break
        return sorted(found, key=attrgetter("time", "log"))

    def drop(self, before: int) -> None:
        """Drop all buckets that end at or before a moment."""
        gone = [number for number in self._buckets if (number + 1) * self._width <= before]
        for number in gone:
            found = self._buckets.pop(number).found
            self.size -= sum(_BYTES + len(each.key) for each in found)

    def sections(self) -> Iterator[Section]:
        """One for each bucket."""
        for number in sorted(self._buckets):
            bucket = self._buckets[number]
            yield Section(f"{PREFIX}{number}", bucket.version, _content(bucket))

    def restore(self, sections: Mapping[str, bytes]) -> None:
        """Replace the content with the output of `sections`."""
        for name, content in sorted(sections.items()):
            number = int(name.removeprefix(PREFIX))
            saved = msgspec.msgpack.decode(content, type=list[_Saved])
            found = [
                Reported(each.time, each.key, restored(each.item), *each[3:]) for each in saved
            ]
            self._buckets[number] = _Bucket(found)
            self.size += sum(_BYTES + len(each.key) for each in found)


class Deduplicator:
    """Finds interactions that came before, by the event ids of one stream.

    `span`: event time for which ids are remembered, microseconds.

    Attributes:
        newest: largest time so far; None before the first.
    """

    def __init__(self, span: int) -> None:
        self.newest: int | None = None
        # Those from the future were left out before, so the newest one is the clock.
        self._seen_ids = SeenIds(span, recent=1)

    def duplicates(
        self, found: Sequence[InteractionColumns], asked: Sequence[tuple[int, int]]
    ) -> set[tuple[int, int]]:
        """The interactions whose ids came before; remembers the ids of the others.

        `asked`: slice and row of each, in the order of the join.
        """
        ids = [each.event_ids[row] for n, row in asked if (each := found[n]).event_ids is not None]
        if not ids:
            return set()
        times = np.array([found[n].times[row] for n, row in asked], dtype=np.int64)
        clocks = np.maximum(
            np.maximum.accumulate(times), NEVER if self.newest is None else self.newest
        )
        unseen = self._seen_ids.unseen(ids, times, clocks)
        self.newest = int(clocks[-1])
        return {place for place, new in zip(asked, unseen.tolist(), strict=True) if not new}

    def sections(self) -> Iterator[Section]:
        """The remembered ids."""
        return self._seen_ids.sections()

    def restore(self, sections: Mapping[str, bytes], newest: int | None) -> None:
        """Replace the content with the output of `sections`."""
        self._seen_ids.restore(sections)
        self.newest = newest


def _content(bucket: _Bucket) -> Callable[[], Callable[[], Iterator[bytes]]]:
    def copied() -> Callable[[], Iterator[bytes]]:
        found = bucket.found[:]
        return lambda: iter([_written(found)])

    return copied


def _written(found: list[Reported]) -> bytes:
    """In the order of their logs, whichever was read first."""
    ordered = sorted(found, key=lambda each: (each.log, each.offset))
    saved = [_Saved(each.time, each.key, portable(each.item), *each[3:]) for each in ordered]
    return msgspec.msgpack.encode(saved)
