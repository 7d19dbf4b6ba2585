"""The dashboards of a configuration: overview, one metric, another policy, and the pipeline.

Analyses bring their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from streameval.config.config import Config
from streameval.engine.analysis import configured
from streameval.engine.monitoring import (
    REPLICAS,
    Dashboard,
    Panel,
    PanelRow,
    Query,
    Variable,
    queries,
)
from streameval.exporters.names import PREFIX, metric_labels
from streameval.monitoring.exported_names import WEIGHT, Names, short_names
from streameval.monitoring.grafana import JOBS
from streameval.monitoring.rules import COLLAPSED

_SPANS: Final = Variable(
    "span",
    "Span of the mean before each point.",
    ("5m", "15m", "1h", "6h", "1d"),
    selected="1h",
)
_OVER: Final = Variable(
    "over",
    "Labels summed over; add your labels that the panels should not split by.",
    (REPLICAS,),
    free=True,
)
_BROKEN: Final = "StreamevalGuardrailBroken"
_FIRING: Final = 'count by (alertname) (ALERTS{alertname=~"Streameval.+",alertstate="firing"})'
_SPLIT: Final = "StreamevalUsersNotSplitAsPlanned"


def dashboards_of(config: Config) -> list[Dashboard]:
    """The dashboards whose families this configuration exports."""
    names = Names(config)
    boards = _MetricBoards(names)
    dashboards = [boards.overview(), boards.metric()] if names.means else [boards.metric()]
    if names.windows and WEIGHT in short_names(names.metrics):
        dashboards.append(_policies(names))
    dashboards.append(_pipeline(names))
    of_analyses = (
        analysis.monitoring(settings).dashboard for analysis, settings in configured(config)
    )
    return [*dashboards, *filter(None, of_analyses)]


class _MetricBoards:
    """The dashboards of metrics that are means: the overview, and one metric."""

    def __init__(self, names: Names) -> None:
        self._names = names
        labels = ["{{${label}}}"] if names.labels else []
        self._legend = " ".join([*labels, *(["k={{k}}"] if names.cutoffs else [])])
        controls = (
            (expected.label, expected.value)
            for analysis, settings in configured(names.config)
            for expected in analysis.expects(settings)
            if expected.key.endswith(".control")
        )
        self._control = next(controls, None)

    def overview(self) -> Dashboard:
        """Each metric by label, compared with a control."""
        now = [
            Panel(
                "Events",
                "Records read per second, valid or not.",
                queries([f"sum(rate({PREFIX}events_consumed_total{{{JOBS}}}[$span]))"]),
                unit="cps",
                alert="StreamevalNoEvents",
                kind="stat",
                width=6,
            ),
        ]
        if self._names.config.event.time is not None:
            now.append(_behind(f"time() - max({PREFIX}watermark_timestamp_seconds{{{JOBS}}})", 6))
        if self._names.labels:
            now.append(self._shares())
        now.append(
            Panel(
                "Alerts",
                "Alerts that fire now, by name; empty if there are none.",
                queries(
                    [_FIRING],
                    "{{alertname}}",
                ),
                kind="stat",
                width=6,
            )
        )
        panels = [self._mean("${metric}"), *self._to_control("${metric}"), self._evidence()]
        if self._names.labels:
            panels.insert(2, self._relative())
        rows = (PanelRow("Now", now), PanelRow("${metric}", _wide(panels), repeat="metric"))
        return Dashboard(
            "overview",
            "overview",
            "Each metric by label: its mean, the difference to the control, and the evidence.",
            (self._metrics(many=True), *self._choices()),
            rows,
        )

    def metric(self) -> Dashboard:
        """One metric: cut-offs, yesterday, windows, segments; and what is not a mean."""
        names = self._names
        mean = self._quotient()
        yesterday = Panel(
            "Compared with yesterday",
            "The same span one day before.",
            queries(
                [mean, self._quotient(ago=" offset 1d")],
                [self._legend, f"yesterday {self._legend}"],
            ),
            unit="none",
            alert=COLLAPSED,
            decimals=4,
        )
        variables, rows = [*self._choices()], list[PanelRow]()
        if names.windows:
            about = "Windows of event time."
            variables.append(Variable("window", about, names.windows, many=True))
        if names.means:
            variables.insert(0, self._metrics(many=False))
            first = [self._mean("By cut-off"), *self._to_control("${metric}")]
            rows.append(PanelRow("Cut-offs", _wide([*first, yesterday, self._evidence()], 2)))
        if names.means and names.windows:
            rows.append(PanelRow("Windows of event time", _wide(self._windows(), 2)))
        if names.means and names.segments:
            about = "Label that divides the lists."
            variables.append(Variable("segment", about, names.segments))
            rows.append(PanelRow("Segments", _wide([*self._by_segment()])))
        if names.gauges:
            about = "Values that are not sums and counts."
            variables.append(Variable("property", about, names.gauges))
            rows.append(PanelRow("Properties of all lists", [self._property()]))
        return Dashboard("metric", "one metric", "One metric in depth.", variables, rows)

    def _metrics(self, *, many: bool) -> Variable:
        return Variable("metric", "The name in /metrics.", short_names(self._names.means), many)

    def _choices(self) -> Iterator[Variable]:
        """Labels, their values, cut-offs and the span."""
        if labels := self._names.labels:
            counters = [f"{name}_count" for name in short_names(self._names.means)]
            (family, *_) = [*counters, *self._names.gauges]
            values = f"label_values({PREFIX}{family}{{{JOBS}}}, ${{label}})"
            compared, control = self._control or (labels[0], None)
            selected = compared if compared in labels else labels[0]
            yield Variable("label", "The label to compare.", labels, selected=selected)
            yield Variable("variant", "The values of the label to show.", values, many=True)
            yield Variable("control", "The value to compare with.", values, selected=control)
        if self._names.cutoffs:
            yield Variable("k", "Cut-offs.", self._names.cutoffs, many=True)
        yield _SPANS
        yield _OVER

    def _matchers(self, *more: str, value: str = '=~"$variant"') -> str:
        labels = [f"${{label}}{value}"] if self._names.labels else []
        cutoffs = ['k=~"$k|"'] if self._names.cutoffs else []
        return ",".join([JOBS, *labels, *cutoffs, *more])

    def _rate(self, part: str, matchers: str, by: str = "", ago: str = "") -> str:
        name = f"{PREFIX}${{metric}}{by}_{part}"
        return f"sum without ($over) (rate({name}{{{matchers}}}[$span]{ago}))"

    def _quotient(self, matchers: str | None = None, by: str = "", ago: str = "") -> str:
        matchers = self._matchers() if matchers is None else matchers
        total, count = (self._rate(part, matchers, by, ago) for part in ("sum", "count"))
        return f"{total} / ({count} > 0)"

    def _mean(self, title: str) -> Panel:
        return Panel(
            title,
            "sum / count over the span: the mean over lists (or items shown).",
            queries([self._quotient()], self._legend),
            unit="none",
            alert=COLLAPSED,
            decimals=4,
        )

    def _difference(self, by: str = "") -> str:
        others = self._matchers('${label}!="$control"')
        return (
            f"({self._quotient(others, by)}) - ignoring (${{label}}) group_left () "
            f"({self._of_control(by)})"
        )

    def _of_control(self, by: str = "") -> str:
        return self._quotient(self._matchers(value='="$control"'), by)

    def _to_control(self, title: str) -> Iterator[Panel]:
        """The difference to the control; none without labels."""
        if self._names.labels:
            yield Panel(
                f"{title}: to $control",
                "Variant minus control, with the same labels and cut-off; it includes noise.",
                queries([self._difference()], self._legend),
                unit="none",
                alert=_BROKEN,
                decimals=4,
            )

    def _relative(self) -> Panel:
        relative = (
            f"({self._difference()}) / ignoring (${{label}}) group_left () "
            f"(({self._of_control()}) > 0)"
        )
        return Panel(
            "${metric}: relative",
            "The difference relative to the value of the control.",
            queries([relative], self._legend),
            unit="percentunit",
            alert=_BROKEN,
            decimals=2,
        )

    def _evidence(self) -> Panel:
        return Panel(
            "${metric}: evidence",
            "Lists, or items shown, per second behind the means. With few of them, means are "
            "imprecise.",
            queries([self._rate("count", self._matchers())], self._legend),
            unit="cps",
            alert=_SPLIT,
        )

    def _shares(self) -> Panel:
        """The share of each value of the label among the lists."""
        named = next((m for m in self._names.means if m.unit == "lists"), self._names.means[0])
        labels = ",".join(f'{name}="{value}"' for name, value in metric_labels(named).items())
        (name,) = short_names([named])
        counter = f"{PREFIX}{name}_count{{{','.join(filter(None, (JOBS, labels)))}}}"
        counts = f"sum without ($over) (rate({counter}[$span]))"
        return Panel(
            f"Shares of the {named.unit}",
            f"Share of each value of the label in the {named.unit} of {named.text}; compare it "
            "with the planned split.",
            queries(
                [f"sum by (${{label}}) ({counts}) / on () group_left () sum({counts})"],
                "{{${label}}}",
            ),
            unit="percentunit",
            alert=_SPLIT,
            kind="stat",
            width=6,
            decimals=2,
        )

    def _windows(self) -> list[Panel]:
        matchers = self._matchers('window=~"$window"')
        mean = f"{PREFIX}${{metric}}_window_mean{{{matchers}}}"
        support = f"{PREFIX}${{metric}}_window_support{{{matchers}}}"
        legend = f"{{{{window}}}} {self._legend}".strip()
        return [
            Panel(
                "Means of windows",
                "By event time; replicas are weighted by their support.",
                queries([_weighted_mean(mean, support)], legend),
                unit="none",
                decimals=4,
            ),
            Panel(
                "Support of windows",
                "Lists, or items shown, in each window.",
                queries([f"sum without ($over) ({support})"], legend),
            ),
        ]

    def _by_segment(self) -> Iterator[Panel]:
        by = "_by_${segment}"
        legend = f"{{{{${{segment}}}}}} {self._legend}".strip()
        yield Panel(
            "By segment",
            "One segment at a time.",
            queries([self._quotient(by=by)], legend),
            unit="none",
            alert=COLLAPSED,
            decimals=4,
        )
        if self._names.labels:
            yield Panel(
                "To $control, by segment",
                "Variant minus control within a segment.",
                queries([self._difference(by)], legend),
                unit="none",
                alert=_BROKEN,
                decimals=4,
            )
        yield Panel(
            "Evidence by segment",
            "Lists, or items shown, per second in each segment.",
            queries([self._rate("count", self._matchers(), by)], legend),
            unit="cps",
            alert=_SPLIT,
        )

    def _property(self) -> Panel:
        windows = ['window=~"$window"'] if self._names.windows else []
        window = ["{{window}}"] if self._names.windows else []
        matchers = self._matchers(*windows)
        return Panel(
            "${property}",
            "A property of all lists together, such as coverage. It cannot be added over "
            "replicas; this is the largest one, a lower bound of the total coverage.",
            queries(
                [f"max without ($over) ({PREFIX}${{property}}{{{matchers}}})"],
                " ".join(filter(None, [*window, self._legend])),
            ),
            unit="none",
            alert="StreamevalCoverageCollapsed",
            width=24,
            decimals=4,
        )


def _wide(panels: Sequence[Panel], columns: int | None = None) -> list[Panel]:
    """The panels in columns of equal width; by default, all beside each other."""
    return [panel._replace(width=24 // (columns or len(panels))) for panel in panels]


def _weighted_mean(mean: str, support: str) -> str:
    """The mean over replicas, weighted by support; no value without any."""
    return f"sum without ($over) ({mean} * {support}) / (sum without ($over) ({support}) > 0)"


def _behind(expression: str, width: int, legend: str = "") -> Panel:
    return Panel(
        "Behind live",
        "Now minus the largest event time.",
        queries([expression], legend),
        unit="s",
        alert="StreamevalWatermarkStuck",
        kind="stat",
        width=width,
    )


def _policies(names: Names) -> Dashboard:
    """Estimates for policies that were not shown, and whether the log can judge them."""
    weight = f"{PREFIX}{WEIGHT}"
    matchers = f'{{{JOBS},target=~"$target",window="lifetime"}}'
    parameters = {
        name
        for metric in names.metrics
        if metric.definition.weighted
        for name in metric_labels(metric)
    }
    legend = " ".join(
        f"{{{{{name}}}}}" for name in ("target", *names.labels, *sorted(parameters - {"target"}))
    )
    mean, support = f"{weight}_window_mean{matchers}", f"{weight}_window_support{matchers}"
    judged = [
        Panel(
            "Mean weight",
            "Of all replicas, over the lifetime. It must be 1: below, the log could not show all "
            "that the policy chooses; above, the propensities are not those that drew the items.",
            queries([_weighted_mean(mean, support)], legend),
            unit="none",
            alert="StreamevalMeanWeight",
            kind="stat",
            width=6,
            decimals=3,
        )
    ]
    over_time: list[Panel] = []
    if has_intervals := names.config.intervals is not None:
        outside = (
            f"max without ($over) (({weight}_window_low{matchers} > bool 1) "
            f"+ ({weight}_window_high{matchers} < bool 1))"
        )
        do_not = Panel(
            "Do not trust",
            "Whether the interval of the mean weight excludes 1, in any process: then ips, snips "
            "and dr have no interval.",
            queries([outside], legend),
            unit="bool_yes_no",
            alert="StreamevalMeanWeight",
            kind="stat",
            width=6,
        )
        judged.insert(0, do_not)
        over_time.append(
            Panel(
                "Mean weight, with its interval",
                "Over the lifetime of each process. If the interval excludes 1, do not trust the "
                "estimates; intervals of processes cannot be combined.",
                _with_bounds(f"{weight}_window", "_mean", matchers, legend),
                unit="none",
                alert="StreamevalMeanWeight",
            )
        )
    if f"{WEIGHT}_effective_share" in names.gauges:
        total = f"sum without ($over) ({mean} * {support})"
        lists = f"sum without ($over) ({support})"
        squares = f"{mean} ^ 2 * {support} / {weight}_effective_share{matchers}"
        effective = f"{total} ^ 2 / (sum without ($over) ({squares}) > 0)"
        share = Panel(
            "Effective share",
            "Share of the lists that an estimate can use, of all replicas: their sums of "
            "weights and of squares are added.",
            queries([f"{effective} / {lists}"], legend),
            unit="percentunit",
            alert="StreamevalOverlapLost",
            kind="stat",
            width=6,
            decimals=1,
        )
        about = "Equivalent number of equally weighted lists, of all replicas. "
        number = share._replace(
            title="Effective lists",
            about=f"{about}An interval needs 20 with a reward.",
            queries=queries([effective], legend),
            unit="short",
            decimals=None,
        )
        judged += [share, number]
        over_time.append(
            share._replace(
                title="Effective share over time",
                about="It falls when the logging policy becomes more certain of its items.",
                kind="timeseries",
                decimals=None,
            )
        )
    rows = [PanelRow("Can the log judge the policy?", [*judged, *_wide(over_time, 2)])]
    if estimates := [*_estimates(names, matchers, legend, has_intervals=has_intervals)]:
        title = "What the policy would have earned: an estimate, which does not replace an A/B test"
        rows.append(PanelRow(title, _wide(estimates, 2)))
    target = f"label_values({weight}_window_mean{{{JOBS}}}, target)"
    return Dashboard(
        "policies",
        "another policy",
        "What a policy that was not shown would have earned, and whether the log can tell.",
        (Variable("target", "Policies that were not shown.", target, many=True), _OVER),
        rows,
    )


_ESTIMATES: Final = {
    "snips": "Do not trust it if the mean weight is not trustworthy.",
    "ips": "Without bias if the propensities are right; it varies more than snips.",
    "dr": "Doubly robust: it needs the predictions of a reward model, and may be below 0.",
}


def _estimates(names: Names, matchers: str, legend: str, *, has_intervals: bool) -> Iterator[Panel]:
    """Panels of each configured estimator: of all replicas, and with its interval."""
    configured_names = set(short_names(names.metrics))
    for name, about in _ESTIMATES.items():
        if name not in configured_names:
            continue
        family = f"{PREFIX}{name}"
        support = f"{family}_window_support{matchers}"
        combined = _weighted_mean(f"{family}{matchers}", support)
        yield Panel(
            f"{name} of all replicas",
            f"An estimate for a policy that was not shown. {about}",
            queries([combined], legend),
            unit="none",
            alert="StreamevalMeanWeight",
        )
        if has_intervals:
            yield Panel(
                f"{name} over the lifetime, with its interval",
                "Of each process. There is no interval below 20 effective rewards, or where the "
                "mean weight is not trustworthy.",
                _with_bounds(family, "", matchers, legend),
                unit="none",
                alert="StreamevalMeanWeight",
            )


def _with_bounds(family: str, value: str, matchers: str, legend: str) -> tuple[Query, ...]:
    """The value of each process between its bounds."""
    window = "" if family.endswith("_window") else "_window"
    parts = (f"{family}{window}_low", f"{family}{value}", f"{family}{window}_high")
    legend_text = legend + " {{instance}}"
    return queries(
        [f"max without (pod, container, endpoint) ({part}{matchers})" for part in parts],
        [f"{legend_text} low", legend_text, f"{legend_text} high"],
    )


def _pipeline(names: Names) -> Dashboard:
    """Reading, what is not counted, checkpoints and processes."""
    config = names.config
    kafka, timed = config.source.has_topics, config.event.time is not None
    lag = f"max by (job, topic, partition) ({PREFIX}kafka_consumer_lag{{{JOBS}}})"
    watermark = f"max by (job, topic, partition) ({PREFIX}watermark_timestamp_seconds{{{JOBS}}})"
    checkpoint = f"time() - {PREFIX}checkpoint_last_success_timestamp_seconds{{{JOBS}}}"
    by_log = "{{topic}} {{partition}}"
    instance = "{{instance}}"

    def now(title: str, about: str, expression: str, unit: str, alert: str, legend: str) -> Panel:
        targets = queries([expression], legend)
        return Panel(title, about, targets, unit, f"Streameval{alert}", "stat", width=4)

    def over_time(
        title: str, about: str, expressions: Iterable[tuple[str, str]], unit: str, alert: str = ""
    ) -> Panel:
        section = f"Streameval{alert}" if alert else ""
        return Panel(title, about, tuple(Query(*query) for query in expressions), unit, section)

    def rate(family: str, by: str) -> str:
        return f"sum by ({by}) (rate({PREFIX}{family}{{{JOBS}}}[$span]))"

    def increase(family: str, by: str) -> str:
        return f"sum by ({by}) (increase({PREFIX}{family}{{{JOBS}}}[$span]))"

    def gauge(family: str) -> str:
        return f"{PREFIX}{family}{{{JOBS}}}"

    panels = [
        now(
            "Ready",
            "Processes that have started to read.",
            f"sum({gauge('ready')})",
            "short",
            "NotReady",
            "ready",
        ),
        *_if(
            kafka,
            now(
                "Waiting",
                "Records in Kafka that are not read yet.",
                f"sum({lag})",
                "short",
                "LagGrowing",
                "records",
            ),
        ),
        *_if(timed, _behind(f"time() - max({watermark})", 4, "behind")),
        now(
            "Invalid",
            "Share of the records read that are invalid.",
            f"{rate('events_invalid_total', 'job')} / ({rate('events_consumed_total', 'job')} > 0)",
            "percentunit",
            "InvalidEvents",
            "{{job}}",
        ),
        *_if(
            config.state,
            now(
                "Oldest checkpoint",
                "Age of the oldest last checkpoint of a process.",
                f"max({checkpoint})",
                "s",
                "CheckpointOld",
                "age",
            ),
        ),
        *_if(
            config.web.config_file,
            now(
                "Certificates and users in force",
                "1 if those last read are in force in every process, 0 if a file has a mistake.",
                f"min({gauge('web_config_last_reload_successful')})",
                "short",
                "ConfigurationRefused",
                "in force",
            ),
        ),
    ]
    reading = [
        over_time(
            "Records read",
            "Per second and process, valid or not.",
            [(rate("events_consumed_total", "instance"), instance)],
            "cps",
            "NoEvents",
        ),
        *_if(
            kafka,
            over_time(
                "Lag",
                "Records between the position and the end of each partition.",
                [(lag, by_log)],
                "short",
                "LagGrowing",
            ),
        ),
        *_if(
            timed,
            over_time(
                "Behind live",
                "Now minus the largest event time of each partition. If it grows by a second per "
                "second, event time does not advance; below 0, most events are from the future.",
                [(f"time() - {watermark}", by_log)],
                "s",
                "WatermarkStuck",
            ),
        ),
    ]
    not_counted = [
        over_time(
            "Invalid, by reason",
            "Invalid records per second; they count in no metric.",
            [(rate("events_invalid_total", "reason"), "{{reason}}")],
            "cps",
            "InvalidEvents",
        ),
        *_if(
            timed,
            over_time(
                "Late and from the future",
                "Events too late for every window, and events ahead of their partition's clock, "
                "per second; they count in the lifetime only.",
                [
                    (rate("events_late_total", "job"), "{{job}} late"),
                    (rate("events_future_total", "job"), "{{job}} from the future"),
                ],
                "cps",
                "LateEvents",
            ),
        ),
        *_if(
            config.dedup,
            over_time(
                "Duplicates",
                "Duplicate events per second.",
                [(rate("events_duplicate_total", "job"), "{{job}}")],
                "cps",
            ),
        ),
        over_time(
            "Deletions",
            "Records without a value per second.",
            [(rate("events_tombstone_total", "job"), "{{job}}")],
            "cps",
        ),
        *_if(
            config.dead_letter_options,
            over_time(
                "Dead letters",
                "Invalid records written as dead letters, per second.",
                [(rate("dlq_events_total", "job"), "{{job}}")],
                "cps",
                "DeadLetters",
            ),
        ),
        *_if(
            config.dimensions(),
            over_time(
                "Folded",
                "Events under __other__, by family: a label or family exceeds its limit.",
                [(f"sum by (family) ({gauge('events_folded')})", "{{family}}")],
                "short",
                "ValuesFolded",
            ),
        ),
        over_time(
            "Refused by a convention",
            "Values left out because their convention does not define them for these lists; "
            "normally none.",
            [(f"max by (metric) ({gauge('readings_undefined')})", "{{metric}}")],
            "short",
        ),
    ]
    titled = {"Now": panels, "Reading": reading, "Not counted": not_counted}
    rows = [PanelRow(title, panels) for title, panels in titled.items()]
    if config.attribution is not None:
        joined = [
            over_time(
                "Records by outcome",
                "Records of each stream per second; counted ones, and why others are not.",
                [(rate("join_records_total", "stream, outcome"), "{{stream}} {{outcome}}")],
                "cps",
                "LateEvents",
            ),
            over_time(
                "Waiting for their window to end",
                "Records of each stream that wait; lists among them are in no value yet.",
                [(f"sum by (stream) ({gauge('join_open')})", "{{stream}}")],
                "short",
            ),
            over_time(
                "Memory of waiting records",
                "Of each process; reading stops if a partition exceeds max_bytes.",
                [(gauge("join_bytes"), instance)],
                "bytes",
                "MemoryNearLimit",
            ),
        ]
        rows.append(PanelRow("Join", joined))
    if config.state is not None:
        checkpoints = [
            over_time(
                "Age of the checkpoint",
                "Age of each process's last checkpoint; normally near the interval in [state].",
                [(checkpoint, instance)],
                "s",
                "CheckpointOld",
            ),
            over_time(
                "Made durable",
                "Records per second covered by checkpoints, by partition; normally as many as are "
                "read.",
                [
                    (
                        f"max by (topic, partition) (deriv({gauge('checkpoint_offset')}[$span]))",
                        by_log,
                    )
                ],
                "cps",
                "CheckpointOld",
            ),
            over_time(
                "Failures",
                "Failed checkpoints and commits within the span; the log has the reason.",
                [
                    (
                        f"increase({gauge('checkpoint_failures_total')}[$span])",
                        "{{instance}} checkpoints: {{reason}}",
                    ),
                    (f"increase({gauge('commit_failures_total')}[$span])", "{{instance}} commits"),
                ],
                "short",
                "CheckpointFailing",
            ),
            over_time(
                "Lost to retention",
                "Offsets that Kafka deleted before they were counted, since each process started.",
                [(gauge("events_skipped_total"), instance)],
                "short",
                "RecordsSkipped",
            ),
        ]
        rows.append(PanelRow("Checkpoints", _wide(checkpoints, 2)))
    processes = [
        *_if(
            kafka,
            over_time(
                "Recoveries",
                "Recoveries of a consumer that made no progress, by step, within the span.",
                [(increase("kafka_watchdog_recoveries_total", "step"), "{{step}}")],
                "short",
                "Stuck",
            ),
            over_time(
                "Failed connections",
                "Failed attempts to reach Kafka or the schema registry, by reason.",
                [(increase("kafka_connection_failures_total", "reason"), "{{reason}}")],
                "short",
                "KafkaFailing",
            ),
        ),
        over_time(
            "Restarts",
            "Restarts of each process within the span.",
            [(f"changes(process_start_time_seconds{{{JOBS}}}[$span])", instance)],
            "short",
            "Restarts",
        ),
        over_time(
            "Age of the snapshot",
            "Age of the scraped values; normally near 1 s, at most 10 s.",
            [(gauge("snapshot_age_seconds"), instance)],
            "s",
            "SnapshotOld",
        ),
        over_time(
            "CPU",
            "Share of one core; near 100 %, the process is saturated.",
            [(f"rate(process_cpu_seconds_total{{{JOBS}}}[$span])", instance)],
            "percentunit",
            "LagGrowing",
        ),
        over_time(
            "Memory",
            "Resident memory and its limit; it grows until the windows are full, then stays level.",
            [
                (f"process_resident_memory_bytes{{{JOBS}}}", instance),
                (gauge("memory_limit_bytes"), "{{instance}} limit"),
            ],
            "bytes",
            "MemoryNearLimit",
        ),
        *_if(
            config.web.config_file,
            over_time(
                "Certificates and users read",
                "Time since each process last read them.",
                [(f"time() - {gauge('web_config_last_reload_timestamp_seconds')}", instance)],
                "s",
                "ConfigurationRefused",
            ),
        ),
        over_time(
            "Release",
            "Processes by release; two releases at once mean a deployment in progress.",
            [(f"count by (version) ({gauge('build_info')})", "{{version}}")],
            "short",
        ),
    ]
    rows.append(PanelRow("Processes", processes))
    about = "Reading, what is not counted, checkpoints and processes."
    return Dashboard("pipeline", "pipeline", about, (_SPANS,), rows)


def _if(condition: object, *panels: Panel) -> tuple[Panel, ...]:
    """The panels, if what they show exists."""
    return panels if condition else ()
