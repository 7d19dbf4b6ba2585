"""The rules that Prometheus evaluates for a configuration, as the YAML that it reads."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from textwrap import TextWrapper, indent
from typing import Final, NamedTuple

from streameval.catalogue import parse
from streameval.catalogue.metric import Metric
from streameval.config.config import Config
from streameval.engine.monitoring import REPLICAS, Alert
from streameval.engine.rankers import RANKER
from streameval.engine.windows.times import duration_problem
from streameval.events.errors import MetricError, UsageError
from streameval.events.ids import is_number
from streameval.events.spelling import unknown_name_problem
from streameval.exporters.names import PREFIX
from streameval.monitoring.alerts import alerts_of, jobs_matcher
from streameval.monitoring.exported_names import COVERAGE, Names, short_name, short_names
from streameval.monitoring.objectives import (
    Objective,
    objective_alerts,
    objective_records,
)

CROSSED: Final = "StreamevalThresholdCrossed"
COLLAPSED: Final = "StreamevalMetricCollapsed"
_SPANS: Final = {"5m": "1m", "1h": "1m", "1d": "5m"}
"""Span of a recorded mean -> how often it is evaluated."""
_DESIGN_EFFECT: Final = 4
"""Lists of a user are correlated: as if independent, a 95 % interval covered 70 %, so the variance
was 3.6 times too small."""
_SIGMAS: Final = 4
_LEAST_LISTS: Final = 500
_HEAD: Final = "# Made by `streameval rules`: make it again when the configuration changes.\n"


class Threshold(NamedTuple):
    """A value that a mean must not cross.

    Attributes:
        metric: canonical text.
        value: the mean must not be below it, or above it.
        span: the mean is over so long, for example "15m".
        support: least number of lists, or of items shown, behind the mean.
    """

    metric: str
    value: float
    is_below: bool
    span: str
    support: int


class RuleOptions(NamedTuple):
    """Options of the rules besides those that follow from the configuration.

    Attributes:
        job: scrape job of the processes; None: rules hold for every job.
        runbook: address of the runbook, to which alerts link; None: they have no link.
    """

    thresholds: Sequence[Threshold] = ()
    objectives: Sequence[Objective] = ()
    job: str | None = None
    runbook: str | None = None


class _Record(NamedTuple):
    """A recording rule."""

    name: str
    expression: str
    labels: Mapping[str, str]


class _Group(NamedTuple):
    """Rules that are evaluated one after the other."""

    name: str
    interval: str
    rules: list[_Record | Alert]


def rules_of(config: Config, options: RuleOptions = RuleOptions()) -> str:  # noqa: B008  it is immutable
    """The file of rules.

    Raises:
        UsageError: a threshold on a metric that the configuration does not have.
    """
    names = Names(config)
    jobs = jobs_matcher(options.job)
    groups = [_Group(f"streameval-{span}", _SPANS[span], _means(span, names)) for span in _SPANS]
    groups[0].rules.extend(_windows(names))
    groups[1].rules.extend(_drop(names))
    groups.append(_Group("streameval-alerts", "1m", [*alerts_of(names, options.job)]))
    if options.thresholds:
        crossed = [_threshold_alert(threshold, names) for threshold in options.thresholds]
        groups.append(_Group("streameval-thresholds", "1m", [*crossed]))
    if options.objectives:
        groups.append(
            _Group("streameval-objectives", "1m", _objectives(options.objectives, jobs, config))
        )
    scope = "" if options.job is None else jobs
    text = "".join(_group_text(group, scope, options.runbook) for group in groups if group.rules)
    return f"{_HEAD}groups:\n{text}"


def _means(span: str, names: Names) -> list[_Record | Alert]:
    """Rates of sums and counts over replicas, and the means from them."""
    rules: list[_Record | Alert] = []
    metrics = short_names(names.means)
    for metric in metrics:
        for part in ("sum", "count"):
            rate = _over_replicas(f"rate({PREFIX}{metric}_{part}[{span}])")
            rules.append(_Record(f"series:streameval_{part}:rate{span}", rate, {"metric": metric}))
        name = PREFIX + metric
        mean = f"rate({name}_sum[{span}])\n  / (rate({name}_count[{span}]) > 0)"
        rules.append(_Record(f"instance:streameval_mean:rate{span}", mean, {"metric": metric}))
    if metrics:
        total, count = (f"series:streameval_{part}:rate{span}" for part in ("sum", "count"))
        rules.append(_Record(f"series:streameval_mean:rate{span}", _ratio(total, count), {}))
        if names.labels:
            labels = ", ".join(names.labels)
            both = (f"sum without ({labels}) ({part})" for part in (total, count))
            rules.append(_Record(f"job:streameval_mean:rate{span}", _ratio(*both), {}))
    return rules


def _ratio(total: str, count: str) -> str:
    return f"{total}\n  / ({count} > 0)"


def _over_replicas(expression: str) -> str:
    """The sum over replicas, which keeps the labels of the series."""
    return f"sum without ({REPLICAS}) ({expression})"


def _windows(names: Names) -> Iterator[_Record]:
    """Gauges of windows over replicas: means weighted by support, and the largest coverage."""
    for metric in short_names(names.means) if names.windows else ():
        name = f"{PREFIX}{metric}_window"
        weighted = _over_replicas(f"{name}_mean * {name}_support")
        mean = _ratio(weighted, _over_replicas(f"{name}_support"))
        yield _Record("series:streameval_window_mean:weighted", mean, {"metric": metric})
    if COVERAGE in names.gauges:
        largest = f"max without ({REPLICAS}) ({PREFIX}{COVERAGE})"
        yield _Record("series:streameval_item_coverage:max", largest, {})


def _drop(names: Names) -> Iterator[_Record | Alert]:
    """The fall of the hourly mean since the same hour a week ago, in standard errors.

    Only of metrics from 0 to 1 of which more is better: their variance is at most that of a
    Bernoulli variable of the same mean.
    """
    fit = [m for m in names.means if _is_share(m) and m.higher_is_better]
    for metric in short_names(fit):
        for part in ("sum", "count"):
            rate = _over_replicas(f"rate({PREFIX}{metric}_{part}[1h] offset 1w)")
            yield _Record(f"series:streameval_{part}:rate1h_offset1w", rate, {"metric": metric})
    if not fit:
        return
    now, then = "series:streameval_{}:rate1h".format, "series:streameval_{}:rate1h_offset1w".format
    yield _Record(then("mean"), _ratio(then("sum"), then("count")), {})
    pooled = "series:streameval_drop:pooled1h"
    both = f"({now('mean')} * {now('count')} + {then('mean')} * {then('count')})"
    yield _Record(pooled, f"{both}\n  / ({now('count')} + {then('count')})", {})
    lists = f"(1 / {now('count')} + 1 / {then('count')})"
    variance = f"{_DESIGN_EFFECT} * {pooled} * (1 - {pooled})\n      * {lists}"
    root = f"sqrt(\n    {variance}\n      / 3600\n  )"
    fallen = f"({then('mean')} - {now('mean')})"
    yield _Record("series:streameval_drop:sigmas1h", f"{fallen}\n  / {root}", {})
    # Metrics of rankers that are not shown fall when the ranker that is shown changes.
    unshown = f"(sum by (job, {RANKER}) (rate({PREFIX}overlap_count[1h])) > 0)"
    unless = f"\n  unless on (job, {RANKER}) {unshown}" if RANKER in names.labels else ""
    yield Alert(
        name=COLLAPSED,
        expression=(
            f"series:streameval_drop:sigmas1h > {_SIGMAS}\n"
            f"  and {now('mean')} < 0.95 * {then('mean')}\n"
            f"  and {now('count')} * 3600 > {_LEAST_LISTS}\n"
            f"  and {then('count')} * 3600 > {_LEAST_LISTS}{unless}"
        ),
        pending="15m",
        summary="{{ $labels.metric }} has collapsed since this hour a week ago.",
        description=(
            "The mean of the last hour is {{ $value | humanize }} standard errors and more than "
            "5 % below the mean of the same hour a week ago ({{ $labels }})."
        ),
    )


def _is_share(metric: Metric) -> bool:
    low, high = metric.definition.bounds
    return low == 0 and high == 1


def threshold_of(option: str, text: str, config: Config, span: str, support: int) -> Threshold:
    """The threshold of an option, METRIC=VALUE.

    Raises:
        UsageError: another form, no mean of the configuration, or a span without its values.
    """
    name, separator, value_text = text.rpartition("=")
    try:
        value = float(value_text)
    except ValueError:
        value = None
    if not separator or value is None or not is_number(value):
        raise UsageError(f"{option}: found {text!r}; give METRIC=VALUE, like ctr=0.02.")
    if problem := duration_problem(span):
        raise UsageError(f"--for: {problem}")
    names = Names(config)
    available = [metric.text for metric in _with_support(names)]
    try:
        canonical = parse(name).text
    except MetricError:
        canonical = name
    if problem := unknown_name_problem(canonical, available, "the means of the configuration"):
        raise UsageError(f"{option}: {canonical!r} is {problem}")
    metric = parse(canonical)
    if not metric.counts_up and span not in names.spans:
        remedy = f"give --for one of the windows: {', '.join(names.spans)}"
        raise UsageError(f"{option}: {canonical!r} has values of windows only; {remedy}.")
    return Threshold(canonical, value, option == "--below", span, support)


def _with_support(names: Names) -> list[Metric]:
    """The metrics whose values come with the number of lists, so that replicas can be combined."""
    return [
        metric
        for metric in names.metrics
        if metric.counts_up or (names.spans and metric.has_interval and not metric.is_per_user)
    ]


def _threshold_alert(threshold: Threshold, names: Names) -> Alert:
    """The alert on a mean over replicas, of each set of labels."""
    metric, span = parse(threshold.metric), threshold.span
    name, selector = PREFIX + short_name(metric), names.selector(metric)
    if metric.counts_up:
        where = f"{{{selector}}}" if selector else ""
        total, count = (
            _over_replicas(f"increase({name}_{part}{where}[{span}])") for part in ("sum", "count")
        )
    else:
        where = f'{{{selector}{"," * bool(selector)}window="{span}"}}'
        count = _over_replicas(f"{name}_window_support{where}")
        total = _over_replicas(f"{name}{where} * {name}_window_support{where}")
    sign, side = ("<", "below") if threshold.is_below else (">", "above")
    return Alert(
        name=CROSSED,
        expression=(
            f"{total}\n  / ({count} > 0)\n  {sign} {threshold.value:.15g}\n"
            f"  and {count} >= {threshold.support}"
        ),
        labels={"metric": threshold.metric, "side": side},
        summary=f"{threshold.metric} is {side} {threshold.value:.15g}.",
        description=(
            f"The mean of {threshold.metric} over the last {span} is {{{{ $value | humanize }}}}, "
            f"from at least {threshold.support:,} {metric.unit} ({{{{ $labels }}}})."
        ),
    )


def _objectives(
    objectives: Iterable[Objective], jobs: str, config: Config
) -> list[_Record | Alert]:
    rules: list[_Record | Alert] = []
    has_reader = config.source.has_topics and config.state is not None
    for objective in objectives:
        rules += [
            _Record(name, expression, {"objective": objective.name})
            for name, expression in objective_records(objective, jobs, has_reader=has_reader)
        ]
        rules += objective_alerts(objective)
    return rules


_SELECTOR: Final = re.compile(r"(?<![\w:])((?:\w+:)?streameval_[\w:]+|process_\w+)(?:\{([^}]*)\})?")


def _add_matcher(expression: str, matcher: str) -> str:
    """The expression with this matcher in each selector of our series; "" leaves it.

    Example:
        >>> _add_matcher('rate(streameval_ctr_sum{k="1"}[5m]) / job:streameval_x:y', 'job="a"')
        'rate(streameval_ctr_sum{k="1",job="a"}[5m]) / job:streameval_x:y{job="a"}'
    """

    def with_matcher(match: re.Match[str]) -> str:
        before = match[2] or ""
        if not matcher or re.search(r"\bjob\s*=", before):
            return match[0]
        return f"{match[1]}{{{','.join(filter(None, (before, matcher)))}}}"

    return _SELECTOR.sub(with_matcher, expression)


def _group_text(group: _Group, scope: str, runbook: str | None) -> str:
    rules = "".join(_rule_text(rule, scope, runbook) for rule in group.rules)
    title = f"  - name: {group.name}\n    interval: {group.interval}\n    rules:\n"
    return title + indent(rules, "      ")


def _rule_text(rule: _Record | Alert, scope: str, runbook: str | None) -> str:
    kind = "record" if isinstance(rule, _Record) else "alert"
    expression = indent(_add_matcher(rule.expression.strip(), scope), "    ")
    labels = dict(rule.labels)
    parts = [f"- {kind}: {rule.name}\n  expr: |\n{expression}\n"]
    if isinstance(rule, Alert):
        labels = {"severity": rule.severity, **labels}
        if rule.pending is not None:
            parts.append(f"  for: {rule.pending}\n")
    if labels:
        pairs = "".join(f"    {name}: {_quote(value)}\n" for name, value in labels.items())
        parts.append(f"  labels:\n{pairs}")
    if isinstance(rule, Alert):
        parts.append("  annotations:\n")
        for name, text in (("summary", rule.summary), ("description", rule.description)):
            wrapped = indent(_WRAPPER.fill(" ".join(text.split())), "      ")
            parts.append(f"    {name}: >-\n{wrapped}\n")
        if runbook is not None:
            parts.append(f"    runbook_url: {_quote(f'{runbook}#{rule.name.lower()}')}\n")
    return "".join(parts)


_WRAPPER: Final = TextWrapper(92, break_long_words=False, break_on_hyphens=False)


def _quote(text: str) -> str:
    """A text as YAML; in quotes unless it is a plain word."""
    if re.fullmatch(r"[A-Za-z_][\w./-]*", text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
