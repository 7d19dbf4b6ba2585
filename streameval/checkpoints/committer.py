"""Commits the offsets of durable checkpoints, then exports their evidence in counters."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Protocol

import msgspec

from streameval.checkpoints.format import Shard
from streameval.checkpoints.settings import LogEvent, LogSink
from streameval.engine.evidence import EvidenceReader, KeyMapping, Totals
from streameval.engine.snapshot import CounterKey, CounterValue
from streameval.events.errors import SourceError
from streameval.events.records import Assignment, CommitAnswer, Partition


class Commit(Protocol):
    """Commits offsets to the consumer group; see `Source.commit`."""

    def __call__(
        self, positions: Mapping[Partition, int], /, *, wait: bool
    ) -> str | CommitAnswer | None:
        """Commit; returns the problem, PENDING, or None once the group has accepted them."""
        ...


_NOTHING: CounterValue = (0.0, 0)


class DurableCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A durable checkpoint.

    Attributes:
        versions: of its sections.
        totals: all its evidence; None if counters do not export it.
        partition_key: maps a key to the one under which the partition counted it.
    """

    shard: Shard
    offset: int
    offsets: Mapping[Partition, int]
    versions: Mapping[str, int] = {}
    totals: Totals | None = None
    partition_key: KeyMapping


class OffsetCommitter:
    """Commits offsets, then exports the evidence below them.

    The commit comes first and must succeed. The group refuses commits from a member that it has
    removed, and the new owner counts those records. So no two replicas export the same evidence,
    and counters never exceed what the group has committed. Failed commits are retried.

    Attributes:
        pending: True to call `commit` again soon: an answer or a newer checkpoint waits.
        exported: shard -> offset of each log up to which counters have exported its evidence.
    """

    def __init__(
        self, commit: Commit, counters: DurableCounters, evidence: EvidenceReader, log: LogSink
    ) -> None:
        self._log = log
        self.failures = 0
        self.pending = False
        self.exported: dict[Shard, Mapping[Partition, int]] = {}
        self._commit = commit
        self._counters = counters
        self._evidence = evidence
        self._waiting: dict[Partition, DurableCheckpoint] = {}
        self._in_flight: dict[Partition, DurableCheckpoint] = {}
        self._logged: set[str] = set()

    def add(self, partition: Partition, durable: DurableCheckpoint) -> None:
        """Queue a checkpoint for commit; it replaces an earlier one of the partition."""
        self._waiting[partition] = durable

    def forget(self, partitions: Iterable[Partition]) -> None:
        """Drop queued checkpoints of partitions that another replica owns now."""
        for partition in partitions:
            self._waiting.pop(partition, None)
            self._in_flight.pop(partition, None)

    def commit(self, *, wait: bool) -> None:
        """Commit all queued checkpoints and export their evidence; logs failures and recoveries.

        Without `wait` the answer may be `pending`: call again. Checkpoints queued meanwhile wait,
        because an answer is only about the offsets of its request.
        """
        self.pending = False
        if wait or not self._in_flight:
            self._in_flight = dict(self._waiting)
        if not self._in_flight:
            return
        in_flight = sorted(self._in_flight.items())
        offsets = {
            log: offset for _, checkpoint in in_flight for log, offset in checkpoint.offsets.items()
        }
        problem = self._commit(offsets, wait=wait)
        if isinstance(problem, CommitAnswer):
            self.pending = True
            return
        self._in_flight = {}
        if problem is not None:
            self._note_failure(problem, offsets)
            return
        for partition, durable in in_flight:
            self._export(partition, durable)
            if self._waiting.get(partition) is durable:
                del self._waiting[partition]
        self.pending = bool(self._waiting)
        if self._logged:
            self._logged.clear()
            self._log(LogEvent("info", "commits recovered", {"partitions": _names(offsets)}))

    def reset(self, logs: Iterable[Assignment]) -> None:
        """Commit the start of logs, before their state is archived.

        Otherwise, after a kill, the old commit would look like progress of another store. The group
        accepts it only from the owner of the partition: a process that was frozen knows an earlier
        end of the log, which the state of the next owner has passed, so that records seem lost.

        Raises:
            SourceError: the group did not accept it.
        """
        offsets = {log.partition: log.start for log in logs}
        problem = self._commit(offsets, wait=True)
        if isinstance(problem, str):
            self.failures += 1
            problem = f"its state does not start over without a commit: {problem.rstrip('.')}"
            raise SourceError(_names(offsets), problem, "start again")

    def _note_failure(self, problem: str, offsets: Mapping[Partition, int]) -> None:
        self.failures += 1
        if problem not in self._logged:
            self._logged.add(problem)
            fields = {"problem": problem, "partitions": _names(offsets)}
            self._log(LogEvent("warning", "offsets were not committed", fields))

    def _export(self, partition: Partition, durable: DurableCheckpoint) -> None:
        if durable.totals is None:
            return
        exported_key = self._evidence.exported_key()
        self._counters.publish(partition, durable.totals, durable.partition_key, exported_key)
        self.exported[durable.shard] = durable.offsets


def _names(logs: Iterable[Partition]) -> str:
    return " ".join(map(str, sorted(logs)))


class DurableCounters:
    """Counters of evidence: start at 0 with the process and grow with durable evidence.

    When a label value is folded between two checkpoints, its counter stops, and the counter that it
    is folded into takes over. No evidence is exported twice, and no sum falls.
    """

    def __init__(self) -> None:
        self._series: dict[Partition, dict[CounterKey, _Series]] = {}
        self._frozen: dict[CounterKey, CounterValue] = {}
        self._exported: dict[CounterKey, CounterValue] = {}

    def begin(self, partition: Partition, totals: Totals, exported_key: KeyMapping) -> None:
        """Start a partition: only evidence beyond these totals is exported."""
        self.forget(partition)
        self._series[partition] = {
            key: _Series(pair, pair, exported_key(key)) for key, pair in totals.items()
        }

    def publish(
        self,
        partition: Partition,
        totals: Totals,
        partition_key: KeyMapping,
        exported_key: KeyMapping,
    ) -> None:
        """Export the evidence of a durable checkpoint.

        Args:
            partition: of the checkpoint; ignored before `begin`.
            totals: all evidence in the checkpoint.
            partition_key: maps a key to the one under which the partition counted it then.
            exported_key: maps a key to the one under which all partitions count it.
        """
        series = self._series.get(partition)
        if series is None:
            return
        for key in [key for key in series if key not in totals and partition_key(key) != key]:
            self._merge(series, key, partition_key(key), exported_key)
        for key, pair in totals.items():
            self._redirect(series, key, exported_key(key))
            series[key].last = pair

    def forget(self, partition: Partition) -> None:
        """Freeze the counters of a partition that another replica owns now."""
        for entry in self._series.pop(partition, {}).values():
            self._freeze(entry)

    def totals(self) -> Mapping[CounterKey, CounterValue]:
        """The counter of every key seen so far, sorted by key."""
        values = defaultdict(list)
        for key, pair in self._frozen.items():
            values[key].append(pair)
        for _, series in sorted(self._series.items()):
            for entry in series.values():
                values[entry.exported_as].append(entry.contribution)
        for key, pairs in values.items():
            # Sums of other groupings may be an ulp lower, and a counter must not fall.
            total, number = _sum(pairs)
            before = self._exported.get(key, _NOTHING)
            self._exported[key] = max(before[0], total), max(before[1], number)
        return {key: self._exported[key] for key in sorted(self._exported)}

    def _merge(
        self,
        series: dict[CounterKey, _Series],
        key: CounterKey,
        target: CounterKey,
        exported_key: KeyMapping,
    ) -> None:
        entry = series.pop(key)
        self._freeze(entry)
        merged = series.get(target)
        if merged is None:
            merged = series[target] = _Series(_NOTHING, _NOTHING, exported_key(target))
        merged.baseline = _sum((merged.baseline, entry.last))
        merged.last = _sum((merged.last, entry.last))

    def _redirect(
        self, series: dict[CounterKey, _Series], key: CounterKey, exported_as: CounterKey
    ) -> None:
        entry = series.get(key)
        if entry is None:
            series[key] = _Series(_NOTHING, _NOTHING, exported_as)
        elif entry.exported_as != exported_as:
            self._freeze(entry)
            entry.baseline, entry.exported_as = entry.last, exported_as

    def _freeze(self, entry: _Series) -> None:
        pairs = (self._frozen.get(entry.exported_as, _NOTHING), entry.contribution)
        self._frozen[entry.exported_as] = _sum(pairs)


class _Series(msgspec.Struct):
    """The evidence of one key in one partition; counters show the part above the baseline.

    Attributes:
        baseline: the evidence before this process.
        last: the evidence in the last checkpoint.
        exported_as: the key under which it is exported.
    """

    baseline: CounterValue
    last: CounterValue
    exported_as: CounterKey

    @property
    def contribution(self) -> CounterValue:
        """The exported evidence; at least 0, as a sum may be one ulp below its baseline."""
        return max(0.0, self.last[0] - self.baseline[0]), self.last[1] - self.baseline[1]


def _sum(pairs: Iterable[CounterValue]) -> CounterValue:
    pairs = tuple(pairs)
    return math.fsum(total for total, _ in pairs), sum(count for _, count in pairs)
