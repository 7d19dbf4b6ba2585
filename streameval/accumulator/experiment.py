"""Experiments: all metrics of all variants against control, with checks of the users."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np

from streameval.accumulator.activity import (
    LISTS_PER_USER,
    USER_METRICS,
    Activity,
    Counted,
    Judged,
)
from streameval.accumulator.checks import Checks, checked
from streameval.accumulator.comparison import (
    DECIDED,
    Comparison,
    Day,
    Method,
    compare_days,
    compare_sums,
    percent,
    sure,
)
from streameval.accumulator.shares import (
    DatedShares,
    Shares,
    day_number,
    plans_of,
    shares_problem,
)
from streameval.accumulator.uncertainty import FEWEST_GROUPS, pooled
from streameval.catalogue.metric import Metric
from streameval.errors import ConfigError
from streameval.statistics.arrays import BoolArray
from streameval.statistics.intervals import NOBODY, Audience, GroupSums, Intervals

_MOST_TIMES: Final = 1e150
"""Largest ratio of half width to precision, because its square must be finite."""

_NOT_VARIANTS: Final = frozenset({"__other__", "__missing__"})
"""Label values that are not variants: folded values, and events without the label."""

_NEVER: Final = 2**31
"""A day after all others."""

_MUCH: Final = 100.0
"""Evidence at which users of a variant are said to come more or less often."""

GuardrailVerdict: TypeAlias = Literal[
    "kept", "broken", "not enough evidence", "too few users", "do not trust"
]
"""The verdicts of a guardrail."""


class Experiment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The variants and the deciding metrics of an experiment.

    Attributes:
        label: label whose values are the variants.
        control: the value to compare with.
        since: first day (UTC) that counts, also for the checks of users; None: all.
        shares: planned share of users of each variant, in any unit; empty: equal. A list for a
            ramp: the shares of new users from the day `since` of each entry.
        primary: metrics that decide; they share the error rate.
        guardrails: metric -> lift that it may not fall below (rise above, if lower is better).
        same_users: whether users meet several variants by design.

    Example:
        >>> Experiment(guardrails={"ctr": -0.01}).control
        'control'
    """

    label: str = "variant"
    control: str = "control"
    since: date | None = None
    shares: Shares | DatedShares = {}
    primary: list[str] = []
    guardrails: dict[str, float] = {}
    same_users: bool = False

    def check(self, metrics: Sequence[Metric], where: str = "experiment") -> None:
        """Check the settings against the metrics.

        Raises:
            ConfigError: a metric is not compared, or a number is not valid.
        """
        known = {each.text: each for each in _judged(metrics)}
        for key, names in (("primary", self.primary), ("guardrails", self.guardrails)):
            for name in names:
                if name not in known:
                    choices = ", ".join(known)
                    raise ConfigError(
                        where, key, f"{name!r} is not compared; choose one of {choices}."
                    )
        for name, limit in self.guardrails.items():
            falls = known[name].higher_is_better is not False
            if not math.isfinite(limit) or limit <= -1 or (limit > 0) is falls:
                sign = "a share from 0 to -1, like -0.01" if falls else "a share above 0, like 0.01"
                raise ConfigError(where, "guardrails", f"{name} = {limit:g}; give {sign}.")
        if problem := shares_problem(self.shares, self.control):
            raise ConfigError(where, "shares", problem)


class Variant(NamedTuple):
    """The data of one variant.

    Attributes:
        sums: group sums of each comparable metric, by its text.
        activity: its lists and clicks; None if they are not kept.
    """

    sums: Mapping[str, GroupSums]
    audience: Audience
    activity: Activity | None = None

    def since(self, first: int | None) -> Variant:
        """The variant from a day on, days since the epoch; None: all of it."""
        if first is None:
            return self
        sums = {name: _chosen(each, each.days >= first) for name, each in self.sums.items()}
        return self._replace(sums=sums, audience=self.audience.since(first))

    def joined(self, other: Variant) -> Variant:
        """The variant with the metrics of another one of the same lists added."""
        return self._replace(
            sums={**self.sums, **other.sums}, activity=self.activity or other.activity
        )


class Compared(Comparison, frozen=True, kw_only=True):
    """One metric of one variant against control.

    The bounds are corrected for several comparisons only if the metric is primary.

    Attributes:
        metric: canonical text.
        variant: value of the label.
        primary: whether the metric is primary.
        among: number of comparisons that share the error.
        guardrail: limit of the lift.
        guardrail_verdict: verdict about the guardrail.
        days_left: estimated days until the lift has the configured precision.
        days: evidence by day of primary metrics; empty for others.
        sentence: the explained verdict.
    """

    metric: str
    variant: str
    primary: bool
    among: int
    guardrail: float | None
    guardrail_verdict: GuardrailVerdict | None
    days_left: float | None
    days: tuple[Day, ...]
    sentence: str


class Report(NamedTuple):
    """The current results of an experiment."""

    checks: Checks
    rows: list[Compared]

    def untrusted(self, trouble: str) -> Report:
        """The report with all verdicts withdrawn, for one more reason."""
        checks = msgspec.structs.replace(self.checks, trouble=(*self.checks.trouble, trouble))
        control = next(iter(checks.users))
        return Report(checks, [_with_sentence(row, checks, control) for row in self.rows])


def compared(
    experiment: Experiment,
    metrics: Sequence[Metric],
    variants: Mapping[str, Variant],
    intervals: Intervals,
    method: Method = "anytime",
) -> Report:
    """Compare every variant with control in every comparable metric.

    Primary metrics share the error rate: each is compared at alpha / (variants x primary metrics).
    The verdicts of other metrics are filtered by e-BH (by BH over p-values for the method "fixed").
    """
    named = {name for name in variants if name not in _NOT_VARIANTS}
    plans, first = plans_of(experiment.shares), day_number(experiment.since)
    chosen = [name for name in plans[0].shares or sorted(named) if name != experiment.control]
    nothing = Variant({}, NOBODY)
    arms = {
        name: variants.get(name, nothing).since(first) for name in (experiment.control, *chosen)
    }
    checks = checked(
        {name: variant.audience for name, variant in arms.items()},
        plans,
        same_users=experiment.same_users,
        left_out=sorted(named.difference(arms)),
    )
    judged = _judged(metrics)
    primary = [metric for metric in judged if metric.text in experiment.primary]
    primaries = max(len(primary) * len(chosen), 1)
    comparisons = _Comparisons(experiment, arms, intervals, method, primaries)
    known = [metric for metric in judged if comparisons.has(metric)]
    followed = primary or known[:1]
    # Metrics per user are filtered by themselves: asking for a metric must not cost it evidence.
    rows = [
        row
        for of_users in (False, True)
        for row in _filtered(
            [
                comparisons.row(metric, name, followed=metric in followed)
                for metric in known
                for name in chosen
                if (metric.counted is not None) is of_users
            ],
            1.0 - intervals.confidence,
        )
    ]
    checks = msgspec.structs.replace(checks, notes=tuple(_notes(rows, experiment.control)))
    return Report(checks, [_with_sentence(row, checks, experiment.control) for row in rows])


def _judged(metrics: Sequence[Metric]) -> list[Judged]:
    """The metrics, and those per user if hits are counted."""
    own = [Judged(metric.text, metric.definition.higher_is_better) for metric in metrics]
    ranked = any(metric.definition.reads in ("hits", "lists") for metric in metrics)
    return [*own, *(USER_METRICS if ranked else ())]


def _notes(rows: Sequence[Compared], control: str) -> Iterator[str]:
    """Variants whose users come more or less often than those of control."""
    for row in rows:
        if row.metric == LISTS_PER_USER.text and row.lift is not None and row.evidence >= _MUCH:
            how = "more" if row.lift > 0 else "less"
            yield (
                f"users of {row.variant} come {percent(abs(row.lift))} {how} often than those of "
                f"{control}: metrics per list compare different visits, so read lists_per_user "
                "and clicks_per_user with them"
            )


class _Comparisons(NamedTuple):
    """Common data of the comparisons of an experiment."""

    experiment: Experiment
    arms: Mapping[str, Variant]
    intervals: Intervals
    method: Method
    primaries: int

    def has(self, metric: Judged) -> bool:
        """Whether any variant has the sums of a metric.

        Metrics per user need users of their own in each variant who have come for equally long,
        unlike those of a ramp.
        """
        if metric.counted is not None:
            begun = [each for each in self.arms.values() if each.audience.lists]
            kept = len(begun) > 0 and all(each.activity is not None for each in begun)
            return (
                kept and isinstance(self.experiment.shares, dict) and not self.experiment.same_users
            )
        return any(metric.text in each.sums for each in self.arms.values())

    def row(self, metric: Judged, name: str, *, followed: bool) -> Compared:
        """A comparison before the verdicts are filtered; `followed` adds its results by day."""
        control, treatment = self._pair(metric, name)
        primary = metric.text in self.experiment.primary
        alpha = (1.0 - self.intervals.confidence) / (self.primaries if primary else 1)
        limit = self.experiment.guardrails.get(metric.text)
        plain = self._compared(metric, control, treatment, self.intervals.confidence)
        found = self._compared(metric, control, treatment, 1.0 - alpha) if primary else plain
        values = {"control": _value(control), "treatment": _value(treatment)}
        return Compared(
            **(msgspec.structs.asdict(found) | (values if found.control is None else {})),
            metric=metric.text,
            variant=name,
            primary=primary,
            among=self.primaries if primary else 1,
            guardrail=limit,
            guardrail_verdict=None if limit is None else _guardrail_verdict(plain, limit),
            days_left=_days_left(found, control.days.size, self.intervals.precision),
            days=self._days(control, treatment, alpha) if followed else (),
            sentence="",
        )

    def _compared(
        self, metric: Judged, control: GroupSums, treatment: GroupSums, confidence: float
    ) -> Comparison:
        return compare_sums(
            control,
            treatment,
            method=self.method,
            precision=self.intervals.precision,
            confidence=confidence,
            higher_is_better=metric.higher_is_better,
        )

    def _days(self, control: GroupSums, treatment: GroupSums, alpha: float) -> tuple[Day, ...]:
        if self.method != "anytime":
            return ()
        precision = self.intervals.precision
        found = compare_days(control, treatment, precision=precision, confidence=1.0 - alpha)
        return tuple(found)

    def _pair(self, metric: Judged, name: str) -> tuple[GroupSums, GroupSums]:
        """The sums of control and a variant on the days that are compared."""
        arms = self.arms[self.experiment.control], self.arms[name]
        if metric.counted is None:
            one, other = (each.sums.get(metric.text, self._nothing) for each in arms)
            return _on_common_days(one, other)
        first = max(int(each.audience.days.min(initial=_NEVER)) for each in arms)
        one, other = (self._per_user(each, metric.counted, first) for each in arms)
        return one, other

    def _per_user(self, arm: Variant, counted: Counted, first: int) -> GroupSums:
        if arm.activity is None:
            return self._nothing
        return arm.activity.per_user(arm.audience, counted, first)

    @property
    def _nothing(self) -> GroupSums:
        empty = np.zeros((0, self.intervals.groups))
        return GroupSums(np.zeros(0, np.int64), empty, empty.astype(np.int64))


def _on_common_days(one: GroupSums, other: GroupSums) -> tuple[GroupSums, GroupSums]:
    """The sums on the days that both have, which are compared; all if there is none."""
    days = np.intersect1d(one.days, other.days)
    if not days.size:
        return one, other
    return _chosen(one, np.isin(one.days, days)), _chosen(other, np.isin(other.days, days))


def _chosen(sums: GroupSums, days: BoolArray) -> GroupSums:
    """The sums of the days where `days` is true."""
    return GroupSums(sums.days[days], sums.numerators[days], sums.denominators[days])


def _days_left(found: Comparison, days: int, precision: float) -> float | None:
    """Days until the half width equals `precision`: it halves with four times as many days.

    `days`: number of days so far.
    """
    if found.lift_low is None or found.lift_high is None or days == 1:
        return None
    half = (found.lift_high - found.lift_low) / 2.0
    # With few users the upper bound of a lift is so large that its square would be infinite.
    return max(0.0, days * (min(half / precision, _MOST_TIMES) ** 2 - 1.0))


def _value(sums: GroupSums) -> float | None:
    return pooled(sums).value if sums.denominators.any() else None


def _guardrail_verdict(found: Comparison, limit: float) -> GuardrailVerdict:
    """The verdict of a guardrail, from the bounds of the lift."""
    if found.verdict == "too few users":
        return "too few users"
    if found.lift_low is None or found.lift_high is None:
        return "not enough evidence"
    low, high = (
        (found.lift_low, found.lift_high) if limit <= 0 else (-found.lift_high, -found.lift_low)
    )
    if low > -abs(limit):
        return "kept"
    return "broken" if high < -abs(limit) else "not enough evidence"


def _filtered(rows: Sequence[Compared], alpha: float) -> list[Compared]:
    """Filter the verdicts of metrics that are not primary by BH, which over 1/E is e-BH."""
    others = sorted(row.p_value for row in rows if not row.primary)
    among = len(others)
    passed = [p for rank, p in enumerate(others, 1) if p * among <= rank * alpha]
    largest = max(passed, default=-1.0)
    return [row if row.primary else _with_limit(row, among, largest) for row in rows]


def _with_limit(row: Compared, among: int, largest: float) -> Compared:
    """The row, with its verdict withdrawn if its p-value exceeds `largest`."""
    chance = row.verdict in DECIDED and row.p_value > largest
    verdict = "not enough evidence" if chance else row.verdict
    return msgspec.structs.replace(row, among=among, verdict=verdict)


def _with_sentence(row: Compared, checks: Checks, control: str) -> Compared:
    """The row with its sentence; the verdict is withdrawn if the checks raise an alarm."""
    change = msgspec.structs.replace
    if checks.trouble and row.verdict != "too few users":
        row = change(row, verdict="do not trust")
        if row.guardrail is not None:
            row = change(row, guardrail_verdict="do not trust")
    return change(row, sentence=sentence_of(row, control, checks.trouble))


def sentence_of(row: Compared, control: str, trouble: Sequence[str]) -> str:
    """The reason for a verdict, in one sentence."""
    name = row.variant
    if row.verdict == "do not trust":
        return f"do not trust this: {'; '.join(trouble)}."
    if row.verdict == "too few users":
        return _too_few(row, control)
    if row.verdict == "no difference" and row.largest_lift is not None:
        most = percent(row.largest_lift, "", math.ceil)
        return (
            f"{name} and {control} differ by {most} at most, which is less than you asked to see."
        )
    if row.verdict == "not enough evidence":
        return _not_enough(row, control)
    how = {"better": "is better than", "worse": "is worse than"}.get(row.verdict, "differs from")
    return f"{name} {how} {control}: {sure(row)}."


def _too_few(row: Compared, control: str) -> str:
    for name, value in ((control, row.control), (row.variant, row.treatment)):
        if value is None:
            return f"too few users: {name} has no lists yet."
        if value <= 0:
            return f"nothing to compare yet: {row.metric} of {name} is {value:g}."
    if row.difference is None:
        return f"too few users: {row.variant} and {control} have no day in common."
    return _shortfall(row, row.shortfall or 1.0)


def _shortfall(row: Compared, times: float) -> str:
    more = f"{times:,.0f}" if times >= 10 else f"{math.ceil(10 * times) / 10:.1f}"
    if row.is_skewed:
        return (
            f"too few users: a few large values decide {row.metric}, and the smaller variant has "
            f"too few users to show them; it needs about {more} times as many, or the values a "
            "cap, as in value_per_list(cap=100)."
        )
    groups = (FEWEST_GROUPS + 1) / times - 1.0
    return (
        f"too few users: they count as {max(groups, 0.0):.1f} groups of equal size in the smaller "
        f"variant, and {FEWEST_GROUPS} are needed: about {more} times as many users."
    )


def _not_enough(row: Compared, control: str) -> str:
    if row.low is None or row.high is None:
        return "not enough evidence yet: all users are alike, so the error cannot be estimated."
    if row.excludes_zero:
        return (
            f"not enough evidence yet: by itself its interval excludes 0, but among {row.among} "
            "comparisons some do so by chance."
        )
    if row.lift_low is None or row.lift_high is None:
        where = f"difference lies between {row.low:+.4g} and {row.high:+.4g}"
    else:
        low = percent(row.lift_low, "+", math.floor)
        where = f"lift lies between {low} and {percent(row.lift_high, '+', math.ceil)}"
    return f"not enough evidence yet: the {where}, so it may be better or worse than {control}."
