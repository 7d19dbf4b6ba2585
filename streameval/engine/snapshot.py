"""A snapshot: an immutable copy of all readings and of the health of the pipeline."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from streameval.accumulator.experiment import Report
from streameval.catalogue.metric import Metric
from streameval.catalogue.reading import Reading
from streameval.events.records import Partition

LIFETIME = "lifetime"
"""The window of everything that was ever counted."""


class Series(msgspec.Struct, frozen=True):
    """One metric of one slice in one window.

    Attributes:
        window: span of event time like "5m", or "lifetime".
        family: place of its family in `Snapshot.families`.
        since: event time, in seconds since the epoch, from which on the value is complete; None
            where it holds all history.
    """

    metric: Metric
    labels: tuple[str, ...]
    reading: Reading
    window: str = LIFETIME
    family: int = 0
    since: float | None = None


class SeriesFamily(msgspec.Struct, frozen=True):
    """Series that are divided in the same way.

    Attributes:
        segment: the one dimension besides the labels; None in a family of labels alone.
        label_names: names of the labels on every series, a segment last.
        windows: names of its windows, ascending, without "lifetime".
    """

    name: str
    segment: str | None
    label_names: tuple[str, ...]
    windows: tuple[str, ...] = ()


CountedKey: TypeAlias = tuple[int, tuple[str, ...], str]
"""Place of the family, label values, canonical text of the metric."""
Counted: TypeAlias = tuple[float, int]
"""Numerator and denominator of a mean."""


class PartitionHealth(msgspec.Struct, frozen=True, kw_only=True):
    """How far one partition has been read.

    Attributes:
        end: offset after its last record as last known; None where unknown.
        event_time: largest event time so far, microseconds since the epoch; None where unknown.
    """

    partition: Partition
    position: int
    end: int | None
    event_time: int | None

    @property
    def lag(self) -> int | None:
        """Records not read yet; None where unknown."""
        return None if self.end is None else max(0, self.end - self.position)


class CheckpointHealth(msgspec.Struct, frozen=True, kw_only=True):
    """How well state is being kept.

    Attributes:
        last_success: when one was last written, wall-clock seconds since the epoch; None where
            this process has written none.
        offsets: the next offset to be counted after a crash, by partition.
        skipped: offsets that logs lost before they were counted, passed over as configured.
    """

    last_success: float | None = None
    failures: Mapping[str, int] = {}
    offsets: Mapping[Partition, int] = {}
    skipped: int = 0


class ReloadHealth(msgspec.Struct, frozen=True, kw_only=True):
    """The result of the last reload of the configuration.

    Attributes:
        successful: whether what was read is in force.
        at: when it was read, wall-clock seconds since the epoch.
    """

    successful: bool
    at: float


_FEWEST: Final = 10
"""Fewer records prove nothing."""


class StreamHealth(msgspec.Struct, frozen=True, kw_only=True):
    """Outcomes of the records of one stream.

    Attributes:
        name: its first topic or file.
        outcomes: records by outcome since the process started; those that were open
            when it started are among them as they end.
        open: records that wait for the end of their window.
        outside: interactions counted with items that their list did not show, likewise.
    """

    name: str
    outcomes: Mapping[str, int]
    open: int
    outside: int

    def suspicion(self, *, by_request: bool) -> str | None:
        """A sentence when most of its interactions count in no list.

        `by_request`: whether each names its list; where it does not, most may well be with items
        that no list has shown.
        """
        counted, lost = self.outcomes["counted"], {"are invalid": self.outcomes["invalid"]}
        kept = counted
        if by_request or not counted:
            lost["belong to no list"] = self.outcomes["orphan"]
        else:
            kept += self.outcomes["orphan"]
        if not counted:
            lost["are of no type that counts"] = self.outcomes["ignored"]
        many = sum(lost.values())
        # What is open may still count: after a start, nothing else has had the time to.
        if many < _FEWEST or many <= kept + self.open:
            return None
        told = ", ".join(f"{count:,} {how}" for how, count in lost.items() if count)
        return (
            f"{self.name}: {many:,} of {many + kept:,} interactions count in no list ({told}): "
            "do the fields and types in [attribution] name what the records have?"
        )


class JoinHealth(msgspec.Struct, frozen=True, kw_only=True):
    """How a join is.

    Attributes:
        bytes: approximate memory of the records that wait.
        clocks: newest event time of each log, microseconds; those that have none are absent.
        passed_by: how often a log was waited for no longer, because it was idle.
    """

    streams: tuple[StreamHealth, ...]
    bytes: int
    clocks: Mapping[Partition, int]
    passed_by: int
    by_request: bool

    @property
    def open_lists(self) -> int:
        """Lists that are not counted yet."""
        return self.streams[0].open

    def suspicion(self) -> str | None:
        """A sentence when most interactions of a stream count in no list."""
        told = (each.suspicion(by_request=self.by_request) for each in self.streams[1:])
        return next((each for each in told if each is not None), None)


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The pipeline's own counts since the process started; without one, what was evaluated.

    Attributes:
        consumed: records read, valid or not.
        valid: records that became events.
        invalid: records that did not, by reason; every known reason is present, at 0 or more.
        tombstones: records without a value.
        partitions: one entry per partition.
        ready: whether the source answers and reading has begun.
        trouble: one sentence why not, or about what a person should look at; else None.
        late: valid events whose panes were no longer kept; None where events carry no time.
        future: valid events ahead of their partition's clock that nothing confirmed; likewise.
        duplicates: events that came again; None where that is not looked for.
        folded: events of all history counted under `__other__`, by name of the family.
        dead_lettered: records set aside as dead letters; None where none are written.
        commit_failures: commits of the group's offsets that failed.
        recoveries: what the watchdog did about a reading that stood still: step -> how often.
        connection_failures: attempts to reach the source that failed: reason -> how often.
        registry_failures: attempts to ask the schema registry that failed: reason -> how often;
            empty where there is none.
        checkpoint: how well state is being kept; None where it is not.
        reload: the result of the last reload; None where it cannot be read again.
        join: how the join of streams is; None where nothing is joined.
    """

    consumed: int = 0
    valid: int = 0
    invalid: Mapping[str, int] = {}
    tombstones: int = 0
    partitions: tuple[PartitionHealth, ...] = ()
    ready: bool = True
    trouble: str | None = None
    late: int | None = None
    future: int | None = None
    duplicates: int | None = None
    folded: Mapping[str, int] = {}
    dead_lettered: int | None = None
    commit_failures: int = 0
    recoveries: Mapping[str, int] = {}
    connection_failures: Mapping[str, int] = {}
    registry_failures: Mapping[str, int] = {}
    checkpoint: CheckpointHealth | None = None
    reload: ReloadHealth | None = None
    join: JoinHealth | None = None


Mean: TypeAlias = tuple[float, int]
"""Numerator and denominator; the first is NaN without a value."""
SeriesKey: TypeAlias = tuple[int, str, tuple[str, ...], str]
"""Place of the family, text of the metric, label values, window."""


class PaneMeans(msgspec.Struct, frozen=True):
    """The means of one span of event time.

    Attributes:
        rows: label values -> one mean for each of the family's metrics that is one.
        whole: whether every slice was read; where not, what is missing is unknown, not 0.
    """

    start: int
    size: int
    rows: Mapping[tuple[str, ...], Sequence[Mean]]
    whole: bool = True


class FamilyPast(msgspec.Struct, frozen=True):
    """What is kept of one family's past.

    Attributes:
        panes: spans of event time, ascending and without a gap in what was read; empty
            without event time or without a window.
        since: event time from which on the panes are whole, microseconds.
    """

    means: tuple[str, ...] = ()
    panes: tuple[PaneMeans, ...] = ()
    since: int = 0
    spans: Mapping[str, int] = {}


class SeenValues(msgspec.Struct, frozen=True):
    """The values of one earlier snapshot.

    Attributes:
        at: when: event time if the stream has it, else wall clock; seconds since the epoch.
        places: where each series is among the values; most snapshots share it.
        values: NaN where undefined; for reading only.
    """

    at: float
    places: Mapping[SeriesKey, int]
    values: array[float]

    def value(self, key: SeriesKey) -> float | None:
        """The value then; None where there was none."""
        place = self.places.get(key)
        if place is None or math.isnan(self.values[place]):
            return None
        return self.values[place]


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """What values were before; never changed once published.

    Attributes:
        clock: largest event time, microseconds; None where events carry none.
        seen: snapshots of this process, ascending; the last ones all, of older ones fewer and
            fewer, so that there are never more than some 200.
    """

    clock: int | None = None
    families: tuple[FamilyPast, ...] = ()
    seen: tuple[SeenValues, ...] = ()


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All readings at one moment; never changed once published.

    Attributes:
        version: grows by one with each snapshot; equal versions are the same snapshot.
        taken_at: wall-clock seconds since the epoch, from the injected clock.
        started_at: the same, of the process.
        source: what is being read.
        families: how series are divided; the one by labels alone comes first.
        series: by family, metric as configured, labels, and window, lifetime last. Label values
            that had no events for long enough are not among them.
        health: the pipeline's own counts.
        counted: durable evidence since the process started, of series that were
            ever seen, moved away or not; None where state is not durable.
        past: what the values were before.
        experiment: variants against control; None where no experiment is configured.
    """

    version: int
    taken_at: float
    started_at: float
    source: str
    families: tuple[SeriesFamily, ...]
    series: tuple[Series, ...]
    health: Health
    counted: Mapping[CountedKey, Counted] | None = None
    past: Past = Past()
    experiment: Report | None = None

    @property
    def label_names(self) -> tuple[str, ...]:
        """Names of the labels on every series of the first family."""
        return self.families[0].label_names
