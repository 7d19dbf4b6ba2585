"""Evidence counters: what checkpoints have made durable since the process started."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping

import msgspec

from streameval.durability.needs import Fold, Totals
from streameval.pipeline.snapshot import Counted as Pair
from streameval.pipeline.snapshot import CountedKey as Key
from streameval.records import Partition

_NOTHING: Pair = (0.0, 0)


class _Line(msgspec.Struct):
    """One key of one partition: all of it above the baseline is shown.

    Attributes:
        baseline: what was there before this process counted.
        last: what the last checkpoint made durable.
        shown_as: the key under which it is exported.
    """

    baseline: Pair
    last: Pair
    shown_as: Key

    @property
    def contribution(self) -> Pair:
        """What is shown of it; a sum that is an ulp below its baseline is 0."""
        return max(0.0, self.last[0] - self.baseline[0]), self.last[1] - self.baseline[1]


class Durable:
    """Sums and counts that begin at 0 with the process and take only what became durable.

    A label value that is folded between two checkpoints keeps what was shown of it; from then
    on the value that it was folded to takes what comes. Nothing is shown twice, no sum falls.
    """

    def __init__(self) -> None:
        self._lines: dict[Partition, dict[Key, _Line]] = {}
        self._settled: dict[Key, Pair] = {}
        self._shown: dict[Key, Pair] = {}

    def begin(self, partition: Partition, totals: Totals, shown: Fold) -> None:
        """Show nothing of what is there now, and all that comes."""
        self.leave(partition)
        self._lines[partition] = {
            key: _Line(pair, pair, shown(key)) for key, pair in totals.items()
        }

    def publish(self, partition: Partition, totals: Totals, fold: Fold, shown: Fold) -> None:
        """Show what a checkpoint has made durable.

        Args:
            partition: of the checkpoint; nothing is shown of one that has not begun.
            totals: what the checkpoint holds in all.
            fold: how the partition folded when it was made.
            shown: how all partitions together do.
        """
        lines = self._lines.get(partition)
        if lines is None:
            return
        for key in [key for key in lines if key not in totals and fold(key) != key]:
            self._move(lines, key, fold(key), shown)
        for key, pair in totals.items():
            self._redirect(lines, key, shown(key))
            lines[key].last = pair

    def leave(self, partition: Partition) -> None:
        """Keep what was shown of a partition; it is somebody else's now."""
        for line in self._lines.pop(partition, {}).values():
            self._settle(line)

    def totals(self) -> Mapping[Key, Pair]:
        """Every key that was ever seen, sorted, with what is shown of it."""
        found = defaultdict(list)
        for key, pair in self._settled.items():
            found[key].append(pair)
        for _, lines in sorted(self._lines.items()):
            for line in lines.values():
                found[line.shown_as].append(line.contribution)
        for key, pairs in found.items():
            self._shown[key] = _raised(self._shown.get(key, _NOTHING), pairs)
        return {key: self._shown[key] for key in sorted(self._shown)}

    def _move(self, lines: dict[Key, _Line], key: Key, target: Key, shown: Fold) -> None:
        line = lines.pop(key)
        self._settle(line)
        found = lines.get(target)
        if found is None:
            found = lines[target] = _Line(_NOTHING, _NOTHING, shown(target))
        found.baseline = _sum((found.baseline, line.last))
        found.last = _sum((found.last, line.last))

    def _redirect(self, lines: dict[Key, _Line], key: Key, shown_as: Key) -> None:
        line = lines.get(key)
        if line is None:
            lines[key] = _Line(_NOTHING, _NOTHING, shown_as)
        elif line.shown_as != shown_as:
            self._settle(line)
            line.baseline, line.shown_as = line.last, shown_as

    def _settle(self, line: _Line) -> None:
        pairs = (self._settled.get(line.shown_as, _NOTHING), line.contribution)
        self._settled[line.shown_as] = _sum(pairs)


def _sum(pairs: Iterable[Pair]) -> Pair:
    pairs = tuple(pairs)
    return math.fsum(total for total, _ in pairs), sum(count for _, count in pairs)


def _raised(before: Pair, pairs: Iterable[Pair]) -> Pair:
    total, count = _sum(pairs)
    return max(before[0], total), max(before[1], count)
