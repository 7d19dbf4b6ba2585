"""`streameval.compare`: models or variants against a control, in one call."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack, get_args, overload

from msgspec.structs import replace

from streameval.accumulator import Accumulator
from streameval.accumulator.kinds.groups import not_comparable
from streameval.analyses.experiments.caps import PercentileCap
from streameval.analyses.experiments.comparison import Comparison, compare_accumulators
from streameval.analyses.experiments.files import (
    CompareResult,
    ExperimentOptions,
    compare_variants,
    page_of_report,
    variant_of,
)
from streameval.analyses.experiments.outcomes import Verdict
from streameval.analyses.experiments.settings import (
    DatedShares,
    Experiment,
    Shares,
    deciding_metrics,
    metric_name,
)
from streameval.analyses.experiments.statistics import compare_with_control
from streameval.analyses.experiments.verdicts import Compared, VariantDecision, VariantSummary
from streameval.analyses.experiments.words import (
    closing,
    comparison_table,
    decision_lines,
    opening,
    promise,
    summary_lines,
    verdict_text,
)
from streameval.catalogue import parse
from streameval.catalogue.metric import Metric
from streameval.checkpoints.store import is_store
from streameval.evaluation.arguments import Options
from streameval.evaluation.evaluation import (
    Evaluation,
    ReadingOptions,
    is_metric,
    metric_texts,
    options_of,
    warned_notes,
)
from streameval.evaluation.plot import DrawnRow, axes_of, draw_rows
from streameval.evaluation.setup import Request, explicit_options
from streameval.evaluation.sources import CallInputs, inputs_of, is_path
from streameval.evaluation.tabular import Library, aligned_text, frame_of, html_of, latex_of
from streameval.events.errors import MetricError, UsageError
from streameval.inference.text_table import TextTable
from streameval.statistics.intervals import Intervals, Method, check_method

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class ComparisonKey(NamedTuple):
    """Key of a comparison: its metric, variant and segment.

    Attributes:
        metric: canonical text.
        variant: its name; the control is that of the report.
        segment: value of the segment; None for all users.

    Example:
        >>> str(ComparisonKey("mrr", "new")), str(ComparisonKey("mrr", "new", "nl"))
        ('mrr of new', 'mrr of new in nl')
    """

    metric: str
    variant: str
    segment: str | None = None

    def __str__(self) -> str:
        of_all = f"{self.metric} of {self.variant}"
        return of_all if self.segment is None else f"{of_all} in {self.segment}"


class ComparisonReport(Mapping[ComparisonKey, Compared]):
    """All comparisons of `compare`: a mapping from metric, variant and segment to a comparison.

    `report["mrr", "new"]` is of all users, `report["mrr", "new", "nl"]` of a segment, and
    `report["mrr"]` of all users of the only variant. The comparisons share the error rate, so that
    the share `confidence` of all verdicts is right.

    Example:
        >>> truth = {f"u{n}": {"a"} for n in range(400)}
        >>> old = {user: ["b", "a"] for user in truth}
        >>> new = {user: ["a"] if n % 2 else ["b", "a"] for n, user in enumerate(truth)}
        >>> found = compare(old, new, "mrr", truth=truth)
        >>> found["mrr"].lift, found["mrr"].text
        (0.5, 'treatment is better: by at least 45.5 %')
    """

    def __init__(self, result: CompareResult) -> None:
        self._result = result
        rows = [*result.report.rows, *result.report.segments]
        self._rows = {ComparisonKey(row.metric, row.variant, row.segment): row for row in rows}

    def __getitem__(self, key: str | tuple[str, str] | tuple[str, str, str | None]) -> Compared:
        if not isinstance(key, str):
            metric, variant, *segment = key
            named = ComparisonKey(metric, variant, *segment)
            if named not in self._rows:
                available = "; ".join(map(str, self._rows))
                raise KeyError(f"{named}: not compared; there is {available}")
            return self._rows[named]
        keys = [
            comparison
            for comparison in self
            if comparison.metric == key and comparison.segment is None
        ]
        if not keys:
            texts = dict.fromkeys(comparison.metric for comparison in self)
            raise KeyError(f"{key!r}: not compared; there is {', '.join(texts)}")
        if len(keys) > 1:
            names = ", ".join(f"[{key!r}, {comparison.variant!r}]" for comparison in keys)
            raise KeyError(f"{key!r}: of several variants; name one: {names}")
        return self._rows[keys[0]]

    def __iter__(self) -> Iterator[ComparisonKey]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def trouble(self) -> Sequence[str]:
        """Reasons not to trust the comparison; empty if all checks of the users passed."""
        return self._result.report.checks.trouble

    @property
    def notes(self) -> Sequence[str]:
        """Notes on the verdicts; the first names the days that are compared."""
        checks = self._result.report.checks
        days = filter(None, (checks.period, checks.adjustment))
        return [*days, *(f"Note: {note}." for note in checks.notes)]

    @property
    def caps(self) -> Sequence[PercentileCap]:
        """The number for each percentile in a metric, as in cap=p99.5."""
        return self._result.caps

    @property
    def promise(self) -> str:
        """Joint guarantee of verdicts and bounds, in words."""
        report = self._result.report
        return promise(self._result.method, report.intervals.confidence, report.look)

    def to_frame(self, library: Library | None = None) -> Any:
        """A frame with a row for each comparison.

        Its columns: metric, variant, segment if there are any, the values of control and treatment,
        the lift and its bounds, p_value, evidence, and the verdict in words.

        Raises:
            MissingExtraError: no library of frames is installed.
        """
        columns: dict[str, list[Any]] = {
            name: [getattr(row, name) for row in self.values()]
            for name in (
                *("metric", "variant", "segment", "control", "treatment"),
                *("lift", "lift_low", "lift_high", "p_value", "evidence"),
            )
        }
        if not any(columns["segment"]):
            del columns["segment"]
        columns["verdict"] = [row.text for row in self.values()]
        return frame_of(columns, library)

    def to_html(self, title: str = "Comparison") -> str:
        """One HTML file to send to a colleague: verdicts with intervals, and the checks.

        It loads nothing from elsewhere.

        Raises:
            MissingExtraError: Jinja2 is not installed (the extra `report`).
        """
        return page_of_report(title, self._result, {})

    def latex(self) -> str:
        """A `tabular` in LaTeX with a row for each comparison."""
        return latex_of(self._table())

    @property
    def summaries(self) -> Sequence[VariantSummary]:
        """The verdicts about each variant, counted: better on 5 of 7 metrics, ..."""
        return self._result.report.summaries

    @property
    def decisions(self) -> Sequence[VariantDecision]:
        """Recommended action for each variant: ship, wait, ...; empty without primary metrics."""
        return self._result.report.decisions

    def __repr__(self) -> str:
        return "\n".join([*self._first_lines, aligned_text(self._table()), *self._last_lines])

    def _repr_html_(self) -> str:
        return html_of(self._table(), " ".join([*self._first_lines, *self._last_lines]))

    @property
    def _first_lines(self) -> list[str]:
        report = self._result.report
        return [*summary_lines(report), *decision_lines(report), *opening(report)]

    @property
    def _last_lines(self) -> list[str]:
        return [*closing(self._result.report, self._result.experiment)]

    def _table(self) -> TextTable[Compared]:
        return comparison_table(list(self._rows.values()))


@overload
def compare(
    control: Accumulator,
    treatment: Accumulator,
    metric: str | Metric | Callable[..., Any],
    /,
    *,
    against: str | None = None,
    method: Method = "fixed",
    precision: float | None = None,
) -> Comparison: ...


@overload
def compare(
    control: Any,
    /,
    *runs_and_metrics: Any,
    **options: Any,
) -> ComparisonReport: ...


def compare(  # noqa: PLR0913  each is an option
    control: Any,
    /,
    *runs_and_metrics: Any,
    truth: Any = None,
    names: Sequence[str] = (),
    against: str | None = None,
    label: str | None = None,
    by: str | None = None,
    within: str | None = None,
    baseline: str | None = None,
    primary: str | Sequence[str] = (),
    guardrails: Mapping[str, float] | None = None,
    shares: Shares | DatedShares | None = None,
    same_users: bool = False,
    untreated_before: bool = False,
    method: Method | None = None,
    looks: int = 1,
    look: int | None = None,
    confidence: float | None = None,
    precision: float | None = None,
    since: date | None = None,
    until: date | None = None,
    pre_period: int | None = None,
    exclude: Any = None,
    **reading: Unpack[ReadingOptions],
) -> Comparison | ComparisonReport:
    """Compare runs with a control: is one better, and is it real?

    Args:
        control: the recommendations of the control, in any form of `evaluate`, an Evaluation, or an
            Accumulator with intervals. Alone: events whose `label` names the variant - a path, a
            frame, or a store of checkpoints.
        runs_and_metrics: the other runs, then metrics.
        truth: the interactions that all runs share, as for `evaluate`; every user is compared with
            themselves.
        names: names of the runs, the control first; by default those of their files, else
            "control", "treatment", "treatment 2", ...
        against: for two accumulators: the metric of control, if it is another one in the same unit,
            to judge two policies by one log.
        label: field whose values are the variants; "variant" by default.
        by: field within each of whose values variants are also compared.
        within: field within whose values variants are compared, if users are assigned by it; it
            must be a field that variants do not change.
        baseline: variant that the others are compared with; "control" by default.
        primary: metrics that decide; several share the error.
        guardrails: metric -> largest accepted loss, like {"ctr": -0.01}.
        shares: planned share of the users of each variant; even by default.
        same_users: whether users see several variants by design.
        untreated_before: whether no user was treated before `since`, although some had a
            treatment's label.
        method: "fixed" for one planned look; "anytime" holds however often you look.
        looks: how often you look at this experiment; without `look`, bounds hold at any number.
        look: number of this look, from 1, if all `looks` are planned at equal distances. Bounds
            are then hardly wider than those of a single look.
        confidence: share of verdicts and bounds that are right; 0.95 by default.
        precision: smallest lift that matters; 0.02 by default.
        since: first day to compare.
        until: last day to compare.
        pre_period: days before `since` whose clicks and lists adjust the values (CUPED); 28 by
            default, 0 for no adjustment.
        exclude: the items of each user to leave out of the lists.
        reading: arguments of `evaluate`: columns, ties, catalog, config, ...

    Returns:
        A Comparison of two accumulators in one metric; otherwise a ComparisonReport.

    Raises:
        UsageError: the arguments contradict each other.
        NotComparableError: an accumulator has no intervals, or the metric no sums by user.
        NoEventsError: there is no valid event.
        ConfigError: a primary metric, guardrail or share does not fit.
        SourceError, InvalidEventError, MetricError, MissingExtraError: as `evaluate`.

    Example:
        >>> from streameval import Accumulator, Intervals
        >>> one, other = (Accumulator("hit_rate", intervals=Intervals()) for _ in range(2))
        >>> for user in range(3_000):
        ...     one.update(["a"], ["a"] if user % 3 == 0 else [], user=f"u{user}")
        ...     other.update(["a"], ["a"] if user % 2 == 0 else [], user=f"u{user}")
        >>> compare(one, other, "hit_rate").verdict
        'better'
    """
    runs, metrics = _runs(control, runs_and_metrics, names)
    check_method(method or "fixed", get_args(Method))
    for name, value, kind, what in (
        ("by", by or "", str, "the name of a field"),
        ("primary", primary, Sequence, "a metric, or a list of metrics"),
        ("guardrails", guardrails or {}, Mapping, "limits of lifts by metric"),
        ("looks", looks, int, "a whole number of at least 1"),
        ("look", look or 0, int, "the number of this look"),
    ):
        if not isinstance(value, kind):
            raise UsageError(f"{name}=: found {value!r:.80}; give {what}.")
    if looks < 1:
        raise UsageError(f"looks=: found {looks}; give a whole number of at least 1.")
    bounds = explicit_options(confidence=confidence, precision=precision)
    if any(isinstance(run, Accumulator | Evaluation) for run in runs.values()):
        for run in runs.values():
            if not isinstance(run, Accumulator | Evaluation):
                raise UsageError(
                    f"{run!r:.80} is neither a metric nor counted already, as other runs are; give "
                    "accumulators and evaluations, or recommendations with truth=."
                )
        if truth is not None:
            raise UsageError("truth= is for recommendations; these runs are counted already.")
        others = explicit_options(
            label=label,
            by=by,
            within=within,
            baseline=baseline,
            since=since,
            until=until,
            shares=shares,
            exclude=exclude,
            looks=looks > 1,
            look=look,
            pre_period=pre_period,
            untreated_before=untreated_before,
            primary=primary,
            guardrails=guardrails,
            **reading,
        )
        for name in others:
            raise UsageError(
                f"{name}= is for events or recommendations; these runs are counted already."
            )
        return _of_counts(runs, metrics, method or "fixed", bounds, against)
    if against is not None:
        raise UsageError("against= is for two accumulators and one metric.")
    experiment = explicit_options(
        control=baseline or (next(iter(runs)) if len(runs) > 1 else None),
        since=since,
        until=until,
        pre_period=pre_period,
        shares=shares,
        primary=list(map(_name_of, [primary] if isinstance(primary, str) else primary)),
        guardrails={_name_of(text): limit for text, limit in (guardrails or {}).items()},
        same_users=same_users,
        untreated_before=untreated_before,
        within=within,
    )
    with warned_notes() as around:
        how = options_of(reading, compare, metrics=metrics, by=[label] if label else [])
        inputs = _inputs(runs, truth, exclude, how)
        added = deciding_metrics(Experiment(**experiment))
        request = Request(next(iter(inputs.values())), how, added)
        models = inputs if len(inputs) > 1 else {}
        options = ExperimentOptions(experiment, bounds, method, looks, look, by, models)
        return ComparisonReport(compare_variants(request, options, around))


def _name_of(metric: object) -> str:
    """The canonical name of a metric that decides."""
    if not isinstance(metric, str):
        raise UsageError(
            f"primary=, guardrails=: found {metric!r:.80}; give the text of a metric, like 'ctr'."
        )
    return metric_name(metric)


def _runs(
    control: Any, others: Sequence[Any], names: Sequence[str]
) -> tuple[dict[str, Any], list[str]]:
    """The runs by name, the control first, and the texts of the metrics."""
    runs = [control]
    metrics: list[str] = []
    for argument in others:
        if is_metric(argument):
            metrics += metric_texts([argument])
        elif metrics:
            raise UsageError(f"{argument!r:.80} comes after the metrics; give all runs first.")
        else:
            runs.append(argument)
    if names and len(names) != len(runs):
        raise UsageError(f"names={list(names)!r}: give one for each of {len(runs)} runs.")
    called = list(names)
    for index, run in enumerate(() if names else runs):
        name = getattr(run, "name", None)
        if is_path(run):
            name = os.path.basename(os.fspath(run)).split(".")[0] or str(run)  # noqa: PTH119  a URL
        elif not isinstance(name, str) or not name:
            usual = ("control", "treatment")
            name = usual[index] if index < len(usual) else f"treatment {index}"
        called.append(name)
    if len(set(called)) < len(called):
        raise UsageError(f"several runs are called alike ({', '.join(called)}); give names=.")
    return dict(zip(called, runs, strict=True)), metrics


def _inputs(
    runs: Mapping[str, Any], truth: Any, exclude: Any, options: Options
) -> dict[str, CallInputs]:
    """Inputs of each run; a single one without a name for events and stores."""
    if len(runs) == 1:
        (run,) = runs.values()
        if truth is not None:
            raise UsageError("there is only one run; give the others before the metrics.")
        if exclude is None and is_path(run) and is_store(os.fspath(run)):
            return {"": CallInputs("state", [os.fspath(run)])}
        return {"": inputs_of(run, None, exclude, options)}
    if truth is None:
        raise UsageError("several runs need truth=, the interactions that they share.")
    return {name: inputs_of(run, truth, exclude, options) for name, run in runs.items()}


def _of_counts(
    runs: Mapping[str, Accumulator | Evaluation],
    metrics: Sequence[str],
    method: Method,
    bounds: Mapping[str, float],
    against: str | None,
) -> Comparison | ComparisonReport:
    """Compare what is counted already; the split of the users is not checked."""
    for text in metrics:
        parse(text).require_numbers()
    if len(runs) < 2:
        raise UsageError("there is one run; give another one to compare it with.")
    counts = {
        name: run.accumulator() if isinstance(run, Evaluation) else run
        for name, run in runs.items()
    }
    first, other, *_ = counts.values()
    if len(counts) == 2 and len(metrics) == 1 and isinstance(runs[next(iter(runs))], Accumulator):
        if "confidence" in bounds:
            raise UsageError("confidence= of two accumulators is that of their intervals.")
        precision = bounds.get("precision")
        return compare_accumulators(
            first, other, metrics[0], against=against, method=method, precision=precision
        )
    if against is not None:
        raise UsageError("against= is for two accumulators and one metric.")
    texts = metrics or [metric.text for metric in first.metrics]
    for name, counted in counts.items():
        if counted.intervals is None:
            reason = f"Count {name} with intervals=Intervals()."
            raise not_comparable(texts[0], reason)
    intervals = replace(first.intervals or Intervals(), **bounds)
    variants = {name: variant_of(counted) for name, counted in counts.items()}
    compared = [metric for metric in first.metrics if metric.text in texts]
    experiment = Experiment(control=next(iter(counts)), same_users=True)
    report = compare_with_control(experiment, compared, variants, intervals, method)
    if not report.rows:
        raise UsageError("no metric that can be compared; `streameval metrics` lists them all.")
    return ComparisonReport(CompareResult(report, experiment, method))


def lifts(comparisons: Mapping[Any, Comparison], axes: Axes | None = None) -> Axes:
    """Draw the lift of each comparison with its interval, and a line at no lift.

    The verdicts better and worse are green and red, the others grey. A comparison without an
    interval has only its name.

    Args:
        comparisons: of `compare`, or by name, for example the metric; drawn from top to bottom.
        axes: matplotlib axes to draw on; new ones by default.

    Returns:
        The axes.

    Raises:
        MetricError: an argument is not valid.
        MissingExtraError: matplotlib is not installed.

    Example:
        >>> nothing = Comparison(kind="fixed", confidence=0.95)
        >>> bounds = {"lift": 0.2, "lift_low": 0.1, "lift_high": 0.3}
        >>> better = Comparison(**bounds, verdict="better", kind="fixed", confidence=0.95)
        >>> drawn = lifts({"ndcg@10": better, "ctr": nothing})
        >>> [text.get_text() for text in drawn.get_yticklabels()]
        ['ndcg@10: better: by at least 10.0 %', 'ctr: too few users']
    """
    if not isinstance(comparisons, Mapping):
        raise MetricError(f"comparisons={comparisons!r:.80}: give name -> result of compare")
    for name, comparison in comparisons.items():
        if not isinstance(comparison, Comparison):
            raise MetricError(
                f"comparisons[{name!r}]={comparison!r:.80}: give the result of compare"
            )
    drawn = axes_of(axes)
    rows = []
    for name, row in comparisons.items():
        text, colours = (
            f"{name}: {verdict_text(row)}",
            {Verdict.BETTER: "green", Verdict.WORSE: "red"},
        )
        ends = row.lift, row.lift_low, row.lift_high
        lift, low, high = (None if None in ends or end is None else 100.0 * end for end in ends)
        rows.append(DrawnRow(text, lift, low, high, f"tab:{colours.get(row.verdict, 'gray')}"))
    draw_rows(drawn, rows)
    drawn.axvline(0.0, color="black", linewidth=0.8, linestyle="--")
    drawn.set(xlabel="lift, %")
    return drawn
