"""A snapshot: an immutable copy of all readings and of the pipeline's health."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from streameval.catalogue.metric import Metric
from streameval.catalogue.reading import Count, Reading
from streameval.engine.analysis import Finding
from streameval.events.printable import first_names
from streameval.events.records import Partition

LIFETIME = "lifetime"
"""Name of the window of all events."""


class Series(msgspec.Struct, frozen=True):
    """One metric of one slice in one window.

    Attributes:
        window: span of event time like "5m", or "lifetime".
        family: index of its family in `Snapshot.families`.
        since: event time from which on the value is complete, seconds since the epoch; None if it
            always was.
    """

    metric: Metric
    labels: tuple[str, ...]
    reading: Reading
    window: str = LIFETIME
    family: int = 0
    since: float | None = None


class SeriesFamily(msgspec.Struct, frozen=True):
    """Series with the same dimensions.

    Attributes:
        name: unique name.
        segment: the dimension besides the labels.
        label_names: names of the labels.
        windows: windows of the family, lifetime last.
    """

    name: str
    segment: str | None
    label_names: tuple[str, ...]
    windows: tuple[str, ...] = (LIFETIME,)


CounterKey: TypeAlias = tuple[int, tuple[str, ...], str]
"""Index of the family, label values, canonical text of the metric."""
CounterValue: TypeAlias = tuple[float, int]
"""Numerator and denominator of a mean."""


class LogStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one log.

    Attributes:
        topic: topic, or path of a file.
        partition: number of the partition.
    """

    topic: str
    partition: int

    @property
    def log(self) -> Partition:
        """The log itself."""
        return Partition(self.topic, self.partition)


class PartitionHealth(LogStatus, frozen=True, kw_only=True):
    """The progress of one partition.

    Attributes:
        position: next offset to be read.
        end: offset after the last record; None while unknown.
        lag: records not read yet; None while unknown.
        durable: next offset to be counted after a crash; None without checkpoints.
        event_time: largest event time so far (the watermark), seconds since the epoch; None
            without event time.
        ahead: seconds by which its clock is ahead of this machine's, if by so much that windows
            are read at this machine's clock instead; otherwise 0.
    """

    position: int
    end: int | None
    lag: Count | None
    durable: int | None = None
    event_time: float | None = None
    ahead: float = 0.0


class StoredPartition(LogStatus, frozen=True, kw_only=True):
    """A partition whose values are those of a checkpoint.

    Attributes:
        offset: the next offset to count, for joined logs a number that grows; None if no checkpoint
            of it is shown.
        written_at: when the checkpoint was written, seconds since the epoch.
        lag: records that it does not have; None while unknown.
        problem: why it is not the newest checkpoint, or why there is none; None if all is well.
    """

    offset: int | None = None
    written_at: float | None = None
    lag: Count | None = None
    problem: str | None = None


class CheckpointHealth(msgspec.Struct, frozen=True, kw_only=True):
    """The health of checkpoints.

    Attributes:
        last_success: when this process last wrote one, seconds since the epoch, or None.
        failures: failed checkpoints by reason.
        commit_failures: failed commits of the group's offsets.
        skipped: offsets that retention deleted before they were counted.
    """

    last_success: float | None = None
    failures: Mapping[str, int] = {}
    commit_failures: int = 0
    skipped: int = 0


class WebConfigHealth(msgspec.Struct, frozen=True, kw_only=True):
    """The result of the last reading of the web configuration: certificates and users.

    Attributes:
        successful: whether what was read is in force.
        at: when it was read, seconds since the epoch.
    """

    successful: bool
    at: float


_FEWEST: Final = 10
"""Number of interactions below which there is no warning."""

_MOST_TYPES: Final = 5
"""Number of types that a warning names."""

_MANY: Final = 0.2
"""Share of interactions above which users without a list are not exceptions."""


class StreamHealth(msgspec.Struct, frozen=True, kw_only=True):
    """Outcomes of the records of one stream.

    Attributes:
        name: its first topic or file.
        outcomes: records by outcome since the process started, including records that were open
            at the start.
        open: records that wait for the end of their window.
        outside: counted interactions with items that their list did not show, since the start.
        unlisted: orphans whose users had no list at all in the window before, since the start; 0
            where interactions name their list.
        unnamed_types: type that neither `types` nor `ignore` names -> number of its interactions,
            which do not count, since the start.
    """

    name: str
    outcomes: Mapping[str, int]
    open: int
    outside: int
    unlisted: int = 0
    unnamed_types: Mapping[str, int] = {}

    def warning(self, *, by_request: bool) -> str | None:
        """A warning if most of its interactions count in no list, or many users have none; or None.

        `by_request`: see `loss`.
        """
        return self.loss(by_request=by_request) or self._login_warning()

    def loss(self, *, by_request: bool) -> str | None:
        """A warning if most of its interactions count in no list, or None.

        `by_request`: whether an interaction names its list; otherwise orphans are usual.
        """
        counted, lost = self.outcomes["counted"], {"are invalid": self.outcomes["invalid"]}
        counting = counted
        if by_request or not counted:
            lost["belong to no list"] = self.outcomes["orphan"]
        else:
            counting += self.outcomes["orphan"]
        if not counted:
            lost["have a type that does not count"] = self.outcomes["ignored"]
        many = sum(lost.values())
        # Open interactions may still count; just after a start, all of them are open.
        if many < _FEWEST or many <= counting + self.open:
            return None
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in lost.items() if count)
        return (
            f"{self.name}: {many:,} of {many + counting:,} interactions count in no list "
            f"({reasons}): do the fields and types in [attribution] match the records?"
        )

    @property
    def types_warning(self) -> str | None:
        """A warning if interactions have a type that no rule names, or None."""
        if not self.unnamed_types:
            return None
        by_count = sorted(self.unnamed_types.items(), key=lambda pair: (-pair[1], pair[0]))
        names = [f"{name} ({count:,})" for name, count in by_count]
        return (
            f"{self.name}: these types do not count, as neither types nor ignore in [attribution] "
            f"names them: {first_names(names, _MOST_TYPES)}."
        )

    def _login_warning(self) -> str | None:
        """A warning if many interactions are of users without a list, or None."""
        joined = self.outcomes["counted"] + self.outcomes["orphan"]
        if self.unlisted < _FEWEST or self.unlisted <= _MANY * joined:
            return None
        return (
            f"{self.name}: {self.unlisted:,} of {joined:,} interactions are of users who were not "
            "shown any list in the window before. If a login gives users another id, send one id "
            'in both streams, or join by key = "request_id".'
        )


class LogClock(LogStatus, frozen=True, kw_only=True):
    """The event time of a log.

    Attributes:
        event_time: the newest, seconds since the epoch.
    """

    event_time: float


class JoinWait(LogStatus, frozen=True, kw_only=True):
    """A log without newer records, for which the records of other logs wait.

    Attributes:
        since: when it was first seen without one, seconds since the epoch.
        records: how many wait.
    """

    since: float
    records: int


class JoinHealth(msgspec.Struct, frozen=True, kw_only=True):
    """The health of a join.

    Attributes:
        streams: the streams, impressions first.
        bytes: approximate memory of the records that wait.
        clocks: those of the logs that have an event time, sorted.
        idle_timeouts: how often the join stopped waiting for an idle log.
        by_request: whether an interaction names its list.
        waits: logs that hold up the others; those that `idle_timeout` ends are left out.
    """

    streams: tuple[StreamHealth, ...]
    bytes: int
    clocks: Sequence[LogClock]
    idle_timeouts: int
    by_request: bool
    waits: Sequence[JoinWait] = ()

    @property
    def open_lists(self) -> int:
        """Number of lists that are not counted yet."""
        return self.streams[0].open

    def loss(self) -> str | None:
        """A warning if most interactions of a stream count in no list, or None."""
        losses = (stream.loss(by_request=self.by_request) for stream in self.streams[1:])
        return next((sentence for sentence in losses if sentence is not None), None)

    def warnings(self) -> Iterator[str]:
        """The warnings of each stream: `StreamHealth.warning`, then that about types."""
        for stream in self.streams[1:]:
            for text in (stream.warning(by_request=self.by_request), stream.types_warning):
                if text is not None:
                    yield text


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The pipeline's own counts since the process started, or of an evaluation.

    Attributes:
        ready: whether the source answers and reading has begun.
        trouble: one sentence about a problem that needs attention.
        consumed: records read since the process started.
        valid: valid events.
        invalid: invalid records by reason.
        tombstones: records without a value.
        late: events too late for every window; None without event time.
        future: events ahead of their partition, in no window; None without event time.
        clock_jumps: how often the clock of a partition came to be ahead of this machine's by more
            than `max_ahead`; None where they are not compared.
        duplicates: duplicate events; None without deduplication.
        folded: events counted under __other__, by family.
        folded_labels: label or segment with more values than `label_cap` -> a sentence about it.
        folded_compared: those of `folded_labels` whose values are compared, as an experiment's.
        dead_lettered: dead letters that are durable; None without a destination.
        recoveries: recoveries of the watchdog, by step.
        connection_failures: failed attempts to reach Kafka or the schema registry, by reason.
        web_config: the result of the last reading of certificates and users.
        partitions: the progress of each partition.
        unmatched: key of the configuration -> a sentence about the name there, which no record has.
        unknown_items: attribute of items -> share of the items shown that it does not have, in a
            sample of the events; empty without attributes.
        checkpoint: the health of checkpoints; None if there are none.
        join: the health of the join; None if no streams are joined.
    """

    ready: bool = True
    trouble: str | None = None
    consumed: int = 0
    valid: int = 0
    invalid: Mapping[str, int] = {}
    tombstones: int = 0
    late: int | None = None
    future: int | None = None
    clock_jumps: int | None = None
    duplicates: int | None = None
    folded: Mapping[str, int] = {}
    folded_labels: Mapping[str, str] = {}
    folded_compared: tuple[str, ...] = ()
    dead_lettered: int | None = None
    recoveries: Mapping[str, int] = {}
    connection_failures: Mapping[str, int] = {}
    web_config: WebConfigHealth | None = None

    partitions: tuple[PartitionHealth, ...] = ()
    unmatched: Mapping[str, str] = {}
    unknown_items: Mapping[str, float] = {}
    checkpoint: CheckpointHealth | None = None
    join: JoinHealth | None = None


Mean: TypeAlias = tuple[float, int]
"""Numerator and denominator; the numerator is NaN if undefined."""
SeriesKey: TypeAlias = tuple[int, str, tuple[str, ...], str]
"""Index of the family, text of the metric, label values, window."""


class PaneMeans(msgspec.Struct, frozen=True):
    """The means of one pane.

    Attributes:
        rows: label values -> mean of each metric in `FamilyHistory.means`.
        complete: whether every slice was read; otherwise missing slices are unknown, not 0.
    """

    start: int
    size: int
    rows: Mapping[tuple[str, ...], Sequence[Mean]]
    complete: bool = True


class FamilyHistory(msgspec.Struct, frozen=True):
    """The history of one family.

    Attributes:
        means: texts of the metrics that are means.
        panes: ascending, without a gap; empty without event time or windows.
        since: event time from which on no pane is missing, microseconds.
        spans: name of each window -> its length, microseconds.
    """

    means: tuple[str, ...] = ()
    panes: tuple[PaneMeans, ...] = ()
    since: int = 0
    spans: Mapping[str, int] = {}


class PastValues(msgspec.Struct, frozen=True):
    """The values of one earlier snapshot.

    Attributes:
        at: event time if the stream has it, else wall clock; seconds since the epoch.
        indexes: index of each series in `values`; most snapshots share this mapping.
        values: NaN if undefined; for reading only.
    """

    at: float
    indexes: Mapping[SeriesKey, int]
    values: array[float]

    def value(self, key: SeriesKey) -> float | None:
        """The value then, or None."""
        index = self.indexes.get(key)
        if index is None or math.isnan(self.values[index]):
            return None
        return self.values[index]


class ValueHistory(msgspec.Struct, frozen=True, kw_only=True):
    """The history of values; immutable.

    Attributes:
        clock: largest event time, microseconds; None without event time.
        seen: earlier snapshots of this process, ascending; thinned with age to about 200.
    """

    clock: int | None = None
    families: tuple[FamilyHistory, ...] = ()
    seen: tuple[PastValues, ...] = ()


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All readings at one moment; immutable.

    Attributes:
        version: grows by one with each snapshot.
        taken_at: wall-clock seconds since the epoch, from the injected clock.
        started_at: start of the process, in the same unit.
        source: the name of the source.
        families: the family of labels alone comes first.
        series: sorted by family, metric as configured, labels, and window, lifetime last; without
            idle label values.
        health: the health of the pipeline.
        counted: durable evidence since the process started, also of partitions that moved away;
            None without checkpoints.
        past: the history of the values.
        stored: the partitions whose checkpoints these values are; empty if the process counts.
        about: subject of the warning in `health.trouble`, equal while only numbers in it change;
            empty without a warning, or for a problem of the process.
        findings: reports of the configured analyses that have one, in the order of the page.
    """

    version: int
    taken_at: float
    started_at: float
    source: str
    families: tuple[SeriesFamily, ...]
    series: tuple[Series, ...]
    health: Health
    counted: Mapping[CounterKey, CounterValue] | None = None
    past: ValueHistory = ValueHistory()
    stored: tuple[StoredPartition, ...] = ()
    about: tuple[object, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def stored_at(self) -> float | None:
        """The write time of the newest of these checkpoints; None if the process counts."""
        times = [entry.written_at for entry in self.stored if entry.written_at is not None]
        return max(times, default=None)

    @property
    def label_names(self) -> tuple[str, ...]:
        """Names of the labels on every series of the first family."""
        return self.families[0].label_names

    def labels_of(self, entry: Series) -> dict[str, str]:
        """Label name -> value, of one series; its segment's included."""
        return dict(zip(self.families[entry.family].label_names, entry.labels, strict=True))

    @property
    def has_windows(self) -> bool:
        """True if any family has windows."""
        named = any(len(family.windows) > 1 for family in self.families)
        return named or any(entry.window != LIFETIME for entry in self.series)
