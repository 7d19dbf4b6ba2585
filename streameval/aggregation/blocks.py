"""Accumulators merged for reading, and merged again only where something changed."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from streameval.aggregation.cap import Labels
from streameval.aggregation.section import next_version
from streameval.aggregation.slices import A, Mergeable

A_co = TypeVar("A_co", bound=Mergeable, covariant=True)


class Source(Protocol[A_co]):
    """Something that accumulators are read from."""

    @property
    def version(self) -> Hashable:
        """While it stays the same, so does the content."""

    def items(self) -> Iterable[tuple[Labels, A_co]]:
        """Label values, which may come several times, and accumulators."""


class _Merge(NamedTuple, Generic[A]):
    parts: Sequence[A]
    versions: Sequence[int]
    whole: A

    def holds(self, parts: Sequence[A]) -> bool:
        """Whether these are the parts it was made of, unchanged since."""
        same = len(parts) == len(self.parts) and all(map(_same, parts, self.parts))
        return same and [part.version for part in parts] == self.versions


class Block(Generic[A]):
    """Several sources as one.

    Accumulators are for reading only: one that has a single part is that part itself. Those of
    slices that did not change stay the very same objects.

    Attributes:
        version: while it stays the same, so does the content.

    Args:
        new: makes an empty accumulator.
    """

    __slots__ = ("_merges", "_new", "_sources", "version")

    def __init__(self, new: Callable[[], A]) -> None:
        self._new = new
        self.version = next_version()
        self._sources: Sequence[Hashable] = ()
        self._merges: dict[Labels, _Merge[A]] = {}

    def join(self, sources: Sequence[Source[A]]) -> Block[A]:
        """Become these sources together; what is the same as before is not merged again."""
        versions = [source.version for source in sources]
        if versions != self._sources:
            self._sources = versions
            self._merge(sources)
        return self

    def items(self) -> Iterable[tuple[Labels, A]]:
        """Label values and accumulators, in no order."""
        return [(labels, merge.whole) for labels, merge in self._merges.items()]

    def sorted(self) -> list[tuple[Labels, A]]:
        """Label values and accumulators, in the order of the label values."""
        return [(labels, self._merges[labels].whole) for labels in sorted(self._merges)]

    def _merge(self, sources: Sequence[Source[A]]) -> None:
        parts: dict[Labels, list[A]] = {}
        for source in sources:
            for labels, accumulator in source.items():
                parts.setdefault(labels, []).append(accumulator)
        before, self._merges = self._merges, {}
        for labels, found in parts.items():
            known = before.get(labels)
            kept = known is not None and known.holds(found)
            self._merges[labels] = known if kept and known else self._merged(found)
        if before != self._merges:
            self.version = next_version()

    def _merged(self, parts: list[A]) -> _Merge[A]:
        versions = [part.version for part in parts]
        if len(parts) == 1:
            return _Merge(parts, versions, parts[0])
        whole = self._new()
        for part in parts:
            whole.merge(part)
        return _Merge(parts, versions, whole)


class Blocks(Generic[A]):
    """Sources by time, with merges of two, four, eight, ... neighbours that are kept.

    So a window that moves on by one is merged of few blocks, most of them as before.

    Attributes:
        size: span of one source, microseconds.
        starts: where there are sources, ascending, microseconds.

    Args:
        size: span of one source.
        new: makes an empty accumulator.
    """

    def __init__(self, size: int, new: Callable[[], A]) -> None:
        self.size = size
        self._new = new
        self.starts: Sequence[int] = []
        self._leaves: Mapping[int, Sequence[Source[A]]] = {}
        self._known: dict[tuple[int, int], Block[A]] = {}

    def set(self, leaves: Mapping[int, Sequence[Source[A]]]) -> None:
        """These are the sources now, by where they start: at multiples of the size."""
        self._leaves = leaves
        starts = sorted(leaves)
        if starts != self.starts:
            self.starts = starts
            self._known = {at: block for at, block in self._known.items() if self._count(*at)}

    def between(self, low: int, high: int) -> list[Block[A]]:
        """Blocks that together are all sources that start at low or later, but before high."""
        if not self.starts:
            return []
        begin = -(-max(low, self.starts[0]) // self.size)
        end = -(-min(high, self.starts[-1] + 1) // self.size)
        found: list[tuple[int, int]] = []
        level = 0
        while begin < end:
            if begin & 1:
                found.append((level, begin))
                begin += 1
            if end & 1:
                end -= 1
                found.append((level, end))
            begin, end, level = begin >> 1, end >> 1, level + 1
        return [self._block(*at) for at in found if self._count(*at)]

    def _block(self, level: int, index: int) -> Block[A]:
        """The merge of 2^level neighbours, of which there is one at least."""
        if self._count(level, index) == 1:
            level, index = 0, self.starts[self._first(index << level)] // self.size
        if level == 0:
            return self._kept(0, index).join(self._leaves[index * self.size])
        halves = [(level - 1, 2 * index), (level - 1, 2 * index + 1)]
        found = [self._block(*half) for half in halves if self._count(*half)]
        return found[0] if len(found) == 1 else self._kept(level, index).join(found)

    def _kept(self, level: int, index: int) -> Block[A]:
        return self._known.setdefault((level, index), Block(self._new))

    def _count(self, level: int, index: int) -> int:
        return self._first((index + 1) << level) - self._first(index << level)

    def _first(self, index: int) -> int:
        return bisect_left(self.starts, index * self.size)


def _same(left: object, right: object) -> bool:
    return left is right
