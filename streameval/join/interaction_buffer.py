"""Interactions: deduplicated, and buffered until their lists are counted."""

from __future__ import annotations

import math
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

import msgspec
import numpy as np
from msgspec.msgpack import Ext

from streameval.engine.dedup import DIGEST, digest
from streameval.engine.windows.sections import Section
from streameval.events import Id
from streameval.join.interactions import InteractionColumns
from streameval.join.open_lists import decode_id, encode_id
from streameval.statistics.relation import decode_column, encode_column, next_version

PREFIX: Final = "~join/reported/"
_BYTES: Final = 300
"""Approximate size of an interaction without its key."""

_MINUTE: Final = 60_000_000
_BUCKETS: Final = 16
"""Ids are forgotten by whole buckets, of a sixteenth of the span."""


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


class _SavedInteraction(NamedTuple):
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
        for interaction in interactions:
            number = interaction.time // width
            bucket = buckets.get(number)
            if bucket is None:
                bucket = buckets[number] = _Bucket([])
            bucket.interactions.append(interaction)
            bucket.version = version
            self.size += _BYTES + len(interaction.key)

    def between(self, begin: int, end: int, most: float = math.inf) -> list[InteractionRecord]:
        """The interactions in [begin, end), by time, log and order of arrival.

        `most`: may stop after more than the first `most`.
        """
        selected: list[InteractionRecord] = []
        for number in sorted(self._buckets):
            if (number + 1) * self._width > begin and number * self._width < end:
                interactions = self._buckets[number].interactions
                selected += [
                    interaction for interaction in interactions if begin <= interaction.time < end
                ]
                if len(selected) > most:
                    break
        return sorted(selected, key=attrgetter("time", "log"))

    def drop(self, before: int) -> None:
        """Drop all buckets that end at or before a time."""
        expired = [number for number in self._buckets if (number + 1) * self._width <= before]
        for number in expired:
            interactions = self._buckets.pop(number).interactions
            self.size -= sum(_BYTES + len(interaction.key) for interaction in interactions)

    def sections(self) -> Iterator[Section]:
        """One section for each bucket."""
        for number in sorted(self._buckets):
            bucket = self._buckets[number]
            yield Section(f"{PREFIX}{number}", bucket.version, _content(bucket))

    def restore(self, sections: Mapping[str, bytes]) -> None:
        """Replace the content with the output of `sections`."""
        for name, content in sorted(sections.items()):
            number = int(name.removeprefix(PREFIX))
            saved = msgspec.msgpack.decode(content, type=list[_SavedInteraction])
            interactions = [
                InteractionRecord(entry.time, entry.key, decode_id(entry.item), *entry[3:])
                for entry in saved
            ]
            self._buckets[number] = _Bucket(interactions)
            self.size += sum(_BYTES + len(interaction.key) for interaction in interactions)


class _SeenBucket:
    """Event ids of one span of event time, in join order.

    Attributes:
        digests: of the ids.
        times: event time of the interaction with each id.
    """

    __slots__ = ("digests", "times", "version")

    def __init__(self) -> None:
        self.digests: list[bytes] = []
        self.times = array("q")
        self.version = next_version()


class Deduplicator:
    """Finds duplicate interactions of one stream by their event ids.

    An interaction is a duplicate if one with the same id was kept before it, from any log of the
    stream, and their event times are at most `span` apart. No clock decides that: the clocks of
    other logs say nothing about the age of a record.

    `span`: window and lateness, microseconds of event time.
    """

    def __init__(self, span: int) -> None:
        self._span = span
        self._width = max(_MINUTE, span // _BUCKETS)
        self._buckets: defaultdict[int, _SeenBucket] = defaultdict(_SeenBucket)
        # One time to save memory, or several if an id was used again.
        self._times: dict[bytes, int | tuple[int, ...]] = {}

    def __len__(self) -> int:
        return sum(len(bucket.digests) for bucket in self._buckets.values())

    def duplicates(
        self, slices: Sequence[InteractionColumns], rows: Sequence[tuple[int, int]]
    ) -> set[tuple[int, int]]:
        """The rows whose ids were seen before; remembers the ids of the others.

        `rows`: slice and row of each interaction, in join order.
        """
        columns = [(part.event_ids, part.times.tolist()) for part in slices]
        duplicates = set()
        for number, row in rows:
            event_ids, times = columns[number]
            if event_ids is not None and not self._is_new(digest(event_ids[row]), times[row]):
                duplicates.add((number, row))
        return duplicates

    def forget(self, watermark: int) -> None:
        """Forget the ids that no interaction from now on can repeat, as earlier ones are late."""
        before = watermark - self._span
        expired = [number for number in self._buckets if (number + 1) * self._width <= before]
        for number in expired:
            bucket = self._buckets.pop(number)
            for digested, time in zip(bucket.digests, bucket.times, strict=True):
                times = self._times.pop(digested)
                if isinstance(times, tuple) and len(times) > 1:
                    self._times[digested] = tuple(other for other in times if other != time)

    def sections(self) -> Iterator[Section]:
        """One section for each bucket of time."""
        for number, bucket in sorted(self._buckets.items()):
            start = number * self._width
            yield Section(str(number), bucket.version, _encode_seen(bucket, start))

    def restore(self, sections: Mapping[str, bytes]) -> None:
        """Replace the content with the output of `sections`."""
        for name, content in sections.items():
            joined, column = msgspec.msgpack.decode(content, type=tuple[bytes, Ext])
            start = int(name) * self._width
            times: list[int] = (decode_column(column).astype(np.int64) + start).tolist()
            digests = [joined[start : start + DIGEST] for start in range(0, len(joined), DIGEST)]
            bucket = self._buckets[int(name)]
            bucket.digests.extend(digests)
            bucket.times.extend(times)
            for digested, time in zip(digests, times, strict=True):
                others = self._times_of(digested)
                self._times[digested] = (*others, time) if others else time

    def _is_new(self, digested: bytes, time: int) -> bool:
        """Whether no kept interaction has this id near this time; if so, remembers it."""
        times = self._times_of(digested)
        if times and any(abs(time - other) <= self._span for other in times):
            return False
        self._times[digested] = (*times, time) if times else time
        bucket = self._buckets[time // self._width]
        bucket.digests.append(digested)
        bucket.times.append(time)
        bucket.version = next_version()
        return True

    def _times_of(self, digested: bytes) -> tuple[int, ...]:
        times = self._times.get(digested, ())
        return (times,) if isinstance(times, int) else times


def _encode_seen(bucket: _SeenBucket, start: int) -> Callable[[], Callable[[], Iterator[bytes]]]:
    """Digests, and times since the start of the bucket, which need fewer bytes."""

    def copied() -> Callable[[], Iterator[bytes]]:
        digests, times = bucket.digests[:], np.array(bucket.times, dtype=np.int64) - start
        return lambda: iter([msgspec.msgpack.encode((b"".join(digests), encode_column(times)))])

    return copied


def _content(bucket: _Bucket) -> Callable[[], Callable[[], Iterator[bytes]]]:
    def copied() -> Callable[[], Iterator[bytes]]:
        interactions = bucket.interactions[:]
        return lambda: iter([_encode_bucket(interactions)])

    return copied


def _encode_bucket(interactions: list[InteractionRecord]) -> bytes:
    """The bytes of a bucket, in log order: independent of which log was read first."""
    ordered = sorted(interactions, key=lambda interaction: (interaction.log, interaction.offset))
    saved = [
        _SavedInteraction(
            interaction.time, interaction.key, encode_id(interaction.item), *interaction[3:]
        )
        for interaction in ordered
    ]
    return msgspec.msgpack.encode(saved)
