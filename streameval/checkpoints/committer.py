"""Commits the offsets of durable checkpoints, then shows their evidence in counters."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from streameval.checkpoints.checkpoint import Entry, LogEvent, Place
from streameval.engine.evidence import EvidenceReader, Fold, Totals
from streameval.engine.snapshot import CounterKey as Key
from streameval.engine.snapshot import CounterValue as Pair
from streameval.events.records import Assignment, Partition

Commit: TypeAlias = Callable[[Mapping[Partition, int]], str | None]
"""Commits offsets to the consumer group; returns the failure, or None."""

_NOTHING: Pair = (0.0, 0)


class DurableCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint that the store has made durable.

    Attributes:
        versions: of the sections in it.
        entries: the table of its parts.
        totals: all evidence in it; None where counters do not show it.
        fold: how the partition folded label values.
    """

    place: Place
    offset: int
    offsets: Mapping[Partition, int]
    versions: Mapping[str, int] = {}
    entries: Sequence[Entry] = ()
    totals: Totals | None = None
    fold: Fold


class OffsetCommitter:
    """Commits offsets, then shows the evidence below them.

    The commit comes first and must succeed. The group refuses a commit from a member that it has
    removed, and the new owner counts those records. So no two replicas show the same evidence,
    and all that is shown lies below the group's commit. A failed commit is tried again.
    """

    def __init__(self, commit: Commit, counters: DurableCounters, evidence: EvidenceReader) -> None:
        self.failures = 0
        self.shown: dict[Place, int] = {}
        self._commit = commit
        self._counters = counters
        self._evidence = evidence
        self._waiting: dict[Partition, DurableCheckpoint] = {}
        self._told: set[str] = set()

    def add(self, partition: Partition, durable: DurableCheckpoint) -> None:
        """Queue a checkpoint for commit; it replaces an earlier one of the partition."""
        self._waiting[partition] = durable

    def forget(self, partitions: Iterable[Partition]) -> None:
        """Drop what waits for partitions that another replica owns now."""
        for partition in partitions:
            self._waiting.pop(partition, None)

    def commit(self) -> LogEvent | None:
        """Commit and show all that waits; returns what to log: a new failure, or the recovery."""
        if not self._waiting:
            return None
        offsets = {
            log: offset
            for _, each in sorted(self._waiting.items())
            for log, offset in each.offsets.items()
        }
        problem = self._commit(offsets)
        if problem is not None:
            return self._failed(problem)
        for partition, durable in sorted(self._waiting.items()):
            self._show(partition, durable)
        self._waiting.clear()
        if not self._told:
            return None
        self._told.clear()
        return LogEvent("info", "commits recovered", {})

    def reset(self, logs: Iterable[Assignment]) -> LogEvent | None:
        """Commit where logs start over, before their state is archived; a new failure, or None.

        After a kill, a commit ahead of the new state would look like progress of another store.
        """
        offsets = {log.partition: log.start for log in logs if (log.committed or 0) > log.start}
        problem = self._commit(offsets) if offsets else None
        return None if problem is None else self._failed(problem)

    def _failed(self, problem: str) -> LogEvent | None:
        self.failures += 1
        if problem in self._told:
            return None
        self._told.add(problem)
        return LogEvent("warning", "offsets were not committed", {"problem": problem})

    def _show(self, partition: Partition, durable: DurableCheckpoint) -> None:
        if durable.totals is None:
            return
        shown = self._evidence.shown()
        self._counters.publish(partition, durable.totals, durable.fold, shown)
        self.shown[durable.place] = durable.offset


class DurableCounters:
    """EvidenceReader counters: start at 0 with the process and grow with durable evidence.

    When a label value is folded between two checkpoints, its counter stops and the counter of
    the value it was folded to grows from then on. Nothing is shown twice, and no sum falls.
    """

    def __init__(self) -> None:
        self._lines: dict[Partition, dict[Key, _Series]] = {}
        self._settled: dict[Key, Pair] = {}
        self._shown: dict[Key, Pair] = {}

    def begin(self, partition: Partition, totals: Totals, shown: Fold) -> None:
        """Start a partition: later evidence counts, what it has now does not."""
        self.leave(partition)
        self._lines[partition] = {
            key: _Series(pair, pair, shown(key)) for key, pair in totals.items()
        }

    def publish(self, partition: Partition, totals: Totals, fold: Fold, shown: Fold) -> None:
        """Show the evidence of a durable checkpoint.

        Args:
            partition: of the checkpoint; ignored where its counters have not begun.
            totals: all evidence in the checkpoint.
            fold: how the partition folded label values then.
            shown: how all partitions together fold them.
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
        """Keep what was shown of a partition that another replica owns now."""
        for line in self._lines.pop(partition, {}).values():
            self._settle(line)

    def totals(self) -> Mapping[Key, Pair]:
        """The counter of every key seen so far, sorted by key."""
        found = defaultdict(list)
        for key, pair in self._settled.items():
            found[key].append(pair)
        for _, lines in sorted(self._lines.items()):
            for line in lines.values():
                found[line.shown_as].append(line.contribution)
        for key, pairs in found.items():
            self._shown[key] = _raised(self._shown.get(key, _NOTHING), pairs)
        return {key: self._shown[key] for key in sorted(self._shown)}

    def _move(self, lines: dict[Key, _Series], key: Key, target: Key, shown: Fold) -> None:
        line = lines.pop(key)
        self._settle(line)
        found = lines.get(target)
        if found is None:
            found = lines[target] = _Series(_NOTHING, _NOTHING, shown(target))
        found.baseline = _sum((found.baseline, line.last))
        found.last = _sum((found.last, line.last))

    def _redirect(self, lines: dict[Key, _Series], key: Key, shown_as: Key) -> None:
        line = lines.get(key)
        if line is None:
            lines[key] = _Series(_NOTHING, _NOTHING, shown_as)
        elif line.shown_as != shown_as:
            self._settle(line)
            line.baseline, line.shown_as = line.last, shown_as

    def _settle(self, line: _Series) -> None:
        pairs = (self._settled.get(line.shown_as, _NOTHING), line.contribution)
        self._settled[line.shown_as] = _sum(pairs)


class _Series(msgspec.Struct):
    """One key of one partition; counters show what lies above its baseline.

    Attributes:
        baseline: the evidence before this process counted.
        last: the evidence in the last checkpoint.
        shown_as: the key under which it is exported.
    """

    baseline: Pair
    last: Pair
    shown_as: Key

    @property
    def contribution(self) -> Pair:
        """What counters show; 0 where a sum is an ulp below its baseline."""
        return max(0.0, self.last[0] - self.baseline[0]), self.last[1] - self.baseline[1]


def _sum(pairs: Iterable[Pair]) -> Pair:
    pairs = tuple(pairs)
    return math.fsum(total for total, _ in pairs), sum(count for _, count in pairs)


def _raised(before: Pair, pairs: Iterable[Pair]) -> Pair:
    total, count = _sum(pairs)
    return max(before[0], total), max(before[1], count)
