"""The interface of an analysis: its parts, its input and its report.

An analysis judges the counts of the engine: is treatment better, did it get worse, who is served
worse? It is a record of functions. The engine makes its reader and calls it at every snapshot; the
configuration, the exporters and the commands call the rest. None of them knows which analyses there
are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec

from streameval.accumulator.kinds.spec import Need
from streameval.accumulator.table import Table
from streameval.catalogue.metric import Metric
from streameval.engine.dead_letters import describe_with_line
from streameval.engine.monitoring import Monitoring
from streameval.engine.windows.views import FamilyView
from streameval.events.analysis_registry import look_up
from streameval.events.errors import OwnAnalysisError
from streameval.events.records import Partition
from streameval.statistics.intervals import Intervals

S = TypeVar("S")
"""Settings: the type of the analysis's table in the configuration."""
R = TypeVar("R")
"""Report: the type that its reader returns."""
R_co = TypeVar("R_co", covariant=True)

KeyProblem: TypeAlias = tuple[str, str]
"""A dotted key of the configuration, and the problem with it."""


class CountedFamily(msgspec.Struct, frozen=True, kw_only=True):
    """Metrics that share one family of series.

    Attributes:
        name: key in saved state: "labels", "country", "labels(variant)[24h]"; does not depend on
            the order in the file.
        segment: the one dimension besides the labels, if any.
        dimensions: labels in the order of the configuration, then the segment.
        metrics: in the order of the configuration.
        spans: lengths of the windows, microseconds, ascending.
    """

    name: str
    segment: str | None
    dimensions: tuple[str, ...]
    metrics: tuple[Metric, ...]
    spans: tuple[int, ...]


class CountedSetup(NamedTuple):
    """Everything that a configuration counts.

    Attributes:
        labels: names of the labels of the series.
        segments: names of the segments.
        rankers: the list shown, then the rankers that were not; empty without rankers.
        families: those without a segment first.
        timed: whether events have a time.
    """

    labels: Sequence[str]
    segments: Sequence[str]
    rankers: Sequence[str]
    families: Sequence[CountedFamily]
    intervals: Intervals | None
    timed: bool

    def by(self, *names: str) -> list[Metric]:
        """The metrics that are counted by a label or segment, or by several together."""
        families = [part.metrics for part in self.families if {*names} <= {*part.dimensions}]
        return list(dict.fromkeys(metric for metrics in families for metric in metrics))


class ReaderContext(NamedTuple):
    """State that stays the same between snapshots.

    Attributes:
        views: of all families.
        labels: names of the labels of the series.
        lateness: how late events may be, microseconds.
    """

    views: Sequence[FamilyView]
    labels: Sequence[str]
    intervals: Intervals | None
    lateness: int


class WindowCounts(NamedTuple):
    """The counts of one family in one window; the same table until they change."""

    view: FamilyView
    window: str
    table: Table


class UnreadPartitions(NamedTuple):
    """Partitions whose users are missing from the counts.

    Attributes:
        number: of them.
        problem: of the first one, in a sentence; None if other processes count them.
    """

    number: int = 0
    problem: str | None = None

    def reason(self, command: str) -> str:
        """The reason for no verdict; `command`: reads the state that processes share."""
        if self.problem is not None:
            return f"{self.number:,} of the partitions are missing: {self.problem}"
        return (
            f"other processes count {self.number:,} of the partitions, so this one sees only some "
            f"of the users; streameval serve and streameval {command} read the state that they "
            "share"
        )


class Moment(NamedTuple):
    """Input of a reader at a snapshot.

    Attributes:
        now: the wall clock, seconds since the epoch.
        clock: event time at which windows are read, microseconds; None if unknown.
        times: event time of each log with events, microseconds; none is after `clock`.
        final: the logs whose event time is not an estimate from a few events.
        unread: the partitions whose users are missing.
        windows: family by family, lifetime last in each.
    """

    now: float
    clock: int | None
    times: Mapping[Partition, int]
    final: Collection[Partition]
    unread: UnreadPartitions
    windows: Sequence[WindowCounts]


class Reader(Protocol[R_co]):
    """Reads a report from the counts."""

    def read(self, moment: Moment) -> R_co | None:
        """The report; None before the first.

        It comes soon, as the snapshot waits for it: long work is done a part at a time. It reads
        no clock and changes no counts, and equal counts give an equal report.
        """
        ...


class Gauge(NamedTuple):
    """A gauge of Prometheus.

    Attributes:
        name: without the prefix of the program.
        text: its HELP.
        samples: labels and value; what is unknown (None, NaN) or infinite is left out.
    """

    name: str
    text: str
    samples: Sequence[tuple[Mapping[str, str], float | None]]


def _has_no_headlines(_report: object) -> Sequence[tuple[str, str]]:
    return ()


def _has_no_line(_settings: object) -> str | None:
    return None


def _has_no_baseline(_report: object) -> tuple[str, str] | None:
    return None


class Expected(NamedTuple):
    """A value of a label that the records should have; it always has series of its own.

    Attributes:
        key: dotted key of the configuration that names it.
        label: the label or segment.
        share: planned share of the users, from 0 to 1.
    """

    key: str
    label: str
    value: str
    share: float


def _has_no_monitoring(_settings: object) -> Monitoring:
    return Monitoring()


def _expects_nothing(_settings: object) -> Iterable[Expected]:
    return ()


class Analysis(NamedTuple, Generic[S, R]):
    """One analysis: its table in the configuration, its reader, and the forms of its report.

    Attributes:
        name: key in the answer of the API, and id on the page.
        title: heading on the page.
        table: key in the configuration.
        settings: type of the table: a Struct, or a list of them.
        describes: the content of the table, for the reference of the configuration.
        check: problems of the settings that need the rest of the configuration: key and text.
        reader: makes it once; None if the statistics that it needs are not counted.
        gauges: of a report.
        section: HTML of a report, below its heading.
        answer: the answer of the API for a report, or for None.
        answers: type of the answer.
        about: description of the answer, for OpenAPI.
        is_alone: True if the answer has a path of its own, instead of a key among the values.
        needs: specifications of statistics that a family counts besides those of its metrics, or
            functions that return some; None without any. Reports of `evaluate` leave out an
            analysis that has needs.
        line: sentence of `check` about the settings; None without one.
        baseline: label whose values are compared, and the value that is the control.
        expects: values of labels that the records should have.
        monitoring: the alerts on its gauges, and the dashboard that shows them.
        headlines: lines above all on the page, each with its tone: better, worse or open.
        package: package and version of an analysis of another package, set when it is found; empty
            for those of streameval.
    """

    name: str
    title: str
    table: str
    settings: type[S]
    describes: str
    check: Callable[[S, CountedSetup], Iterator[KeyProblem]]
    reader: Callable[[S, ReaderContext], Reader[R] | None]
    gauges: Callable[[R], Iterable[Gauge]]
    section: Callable[[R], str]
    answer: Callable[[R | None], object]
    answers: Any
    about: str
    is_alone: bool = False
    needs: Callable[[S, CountedFamily], Iterable[Need]] | None = None
    line: Callable[[S], str | None] = _has_no_line
    baseline: Callable[[R], tuple[str, str] | None] = _has_no_baseline
    expects: Callable[[S], Iterable[Expected]] = _expects_nothing
    monitoring: Callable[[S], Monitoring] = _has_no_monitoring
    headlines: Callable[[R], Sequence[tuple[str, str]]] = _has_no_headlines
    package: str = ""

    def settings_in(self, config: object) -> S | None:
        """Its settings in a configuration; None if it is not configured."""
        settings: S | None = getattr(config, self.table, None)
        return settings or None

    def report_in(self, findings: Iterable[Finding]) -> R | None:
        """Its report among the findings of a snapshot, or None."""
        reports = (finding.report for finding in findings if finding.analysis.name == self.name)
        report: R | None = next(reports, None)
        return report


class Configured(NamedTuple):
    """An analysis with its settings."""

    analysis: Analysis[Any, Any]
    settings: Any


class Finding(NamedTuple):
    """The report of an analysis in a snapshot."""

    analysis: Analysis[Any, Any]
    report: Any


def own_error(
    error: Exception, analysis: str, table: str, package: str, function: str
) -> OwnAnalysisError:
    """The error for what a function, or the settings, of an analysis of another package raised."""
    failure = f"{function} failed ({describe_with_line(error)})"
    return OwnAnalysisError(
        f"analysis {analysis!r} of the package {package}: {failure}. Correct it, or report this to "
        f"the authors of {package}; without [{table}] it is not called.",
        analysis=analysis,
        package=package,
        function=function,
    )


def installed() -> tuple[Analysis[Any, Any], ...]:
    """All analyses, in the order of the page."""
    analyses: tuple[Analysis[Any, Any], ...] = look_up("ANALYSES")
    return analyses


def configured(config: object) -> tuple[Configured, ...]:
    """The analyses that a configuration has a table for."""
    pairs = ((analysis, analysis.settings_in(config)) for analysis in installed())
    return tuple(Configured(*pair) for pair in pairs if pair[1] is not None)
