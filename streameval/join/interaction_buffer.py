"""Interactions: deduplicated, and buffered until their lists are counted."""

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
"""Approximate size of an interaction without its key."""


class InteractionRecord(NamedTuple):
    """An interaction that counts, and its record.

    Attributes:
        key: id of the list, or the user.
        log: number of the log.
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
    __slots__ = ("interactions", "version")

    def __init__(self, interactions: list[InteractionRecord]) -> None:
        self.interactions = interactions
        self.version = next_version()


class InteractionBuffer:
    """Interactions in buckets of event time.

    `width`: of a bucket, microseconds of event time.
    """

    def __init__(self, width: int) -> None:
        self.size = 0
        self._width = width
        self._buckets: dict[int, _Bucket] = {}

    def __len__(self) -> int:
        return sum(len(bucket.interactions) for bucket in self._buckets.values())

    def extend(self, interactions: Iterable[InteractionRecord]) -> None:
        """Add interactions."""
        version, buckets, width = next_version(), self._buckets, self._width
        for each in interactions:
            number = each.time // width
            bucket = buckets.get(number)
            if bucket is None:
                bucket = buckets[number] = _Bucket([])
            bucket.interactions.append(each)
            bucket.version = version
            self.size += _BYTES + len(each.key)

    def between(self, begin: int, end: int, most: float = math.inf) -> list[InteractionRecord]:
        """The interactions in [begin, end), by time, log and order of arrival.

        `most`: may stop after more than the first `most`.
        """
        selected: list[InteractionRecord] = []
        for number in sorted(self._buckets):
            if (number + 1) * self._width > begin and number * self._width < end:
                interactions = self._buckets[number].interactions
                selected += [each for each in interactions if begin <= each.time < end]
                if len(selected) > most:
                    break
        return sorted(selected, key=attrgetter("time", "log"))

    def drop(self, before: int) -> None:
        """Drop all buckets that end at or before a time."""
        expired = [number for number in self._buckets if (number + 1) * self._width <= before]
        for number in expired:
            interactions = self._buckets.pop(number).interactions
            self.size -= sum(_BYTES + len(each.key) for each in interactions)

    def sections(self) -> Iterator[Section]:
        """One section for each bucket."""
        for number in sorted(self._buckets):
            bucket = self._buckets[number]
            yield Section(f"{PREFIX}{number}", bucket.version, _content(bucket))

    def restore(self, sections: Mapping[str, bytes]) -> None:
        """Replace the content with the output of `sections`."""
        for name, content in sorted(sections.items()):
            number = int(name.removeprefix(PREFIX))
            saved = msgspec.msgpack.decode(content, type=list[_Saved])
            interactions = [
                InteractionRecord(each.time, each.key, restored(each.item), *each[3:])
                for each in saved
            ]
            self._buckets[number] = _Bucket(interactions)
            self.size += sum(_BYTES + len(each.key) for each in interactions)


class Deduplicator:
    """Finds duplicate interactions of one stream by their event ids.

    `span`: how long ids are remembered, microseconds of event time.

    Attributes:
        newest: largest event time so far; None before the first.
    """

    def __init__(self, span: int) -> None:
        self.newest: int | None = None
        # Interactions from the future were refused before, so the newest time is the clock.
        self._seen_ids = SeenIds(span, recent=1)

    def duplicates(
        self, slices: Sequence[InteractionColumns], rows: Sequence[tuple[int, int]]
    ) -> set[tuple[int, int]]:
        """The rows whose ids were seen before; remembers the ids of the others.

        `rows`: slice and row of each interaction, in join order.
        """
        ids = [each.event_ids[row] for n, row in rows if (each := slices[n]).event_ids is not None]
        if not ids:
            return set()
        times = np.array([slices[n].times[row] for n, row in rows], dtype=np.int64)
        clocks = np.maximum(
            np.maximum.accumulate(times), NEVER if self.newest is None else self.newest
        )
        unseen = self._seen_ids.unseen(ids, times, clocks)
        self.newest = int(clocks[-1])
        return {row for row, new in zip(rows, unseen.tolist(), strict=True) if not new}

    def sections(self) -> Iterator[Section]:
        """The remembered ids."""
        return self._seen_ids.sections()

    def restore(self, sections: Mapping[str, bytes], newest: int | None) -> None:
        """Replace the content with the output of `sections`."""
        self._seen_ids.restore(sections, NEVER if newest is None else newest)
        self.newest = newest


def _content(bucket: _Bucket) -> Callable[[], Callable[[], Iterator[bytes]]]:
    def copied() -> Callable[[], Iterator[bytes]]:
        interactions = bucket.interactions[:]
        return lambda: iter([_written(interactions)])

    return copied


def _written(interactions: list[InteractionRecord]) -> bytes:
    """The bytes of a bucket, in log order: independent of which log was read first."""
    ordered = sorted(interactions, key=lambda each: (each.log, each.offset))
    saved = [_Saved(each.time, each.key, portable(each.item), *each[3:]) for each in ordered]
    return msgspec.msgpack.encode(saved)
