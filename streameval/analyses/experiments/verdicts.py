"""Verdicts of many comparisons: the error that they share, and guardrails.

Readers select the comparisons that stand out, and bounds that hold one by one are too narrow for
those. So a verdict and its bounds come from the same corrected interval: comparisons are selected
by the procedure of Benjamini and Hochberg (e-BH over e-values), and the bounds of the R selected
among m have the error rate R alpha / m (Benjamini, Yekutieli, 2005; Xu, Wang, Ramdas, 2022).

A decision needs all guardrails to be kept. It is wrong only if a broken one passes its own test, so
each is tested one-sided at the full error rate (Berger, Multiparameter hypothesis testing and
acceptance sampling, 1982). Shipping needs a better metric, too; for the same reason, this does not
divide the error rate.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import asdict, replace

from streameval.analyses.experiments.checks import Checks
from streameval.analyses.experiments.comparison import (
    Comparison,
    Settings,
    judge,
    log_lift,
    logs_differ,
    side_of_limit,
)
from streameval.analyses.experiments.course import Day, Outlook, SpanLift
from streameval.analyses.experiments.outcomes import (
    DECIDED,
    OPEN,
    Decision,
    GuardrailVerdict,
    OpenReason,
    Verdict,
)
from streameval.inference.contrasts import Contrast
from streameval.inference.planned_looks import PlannedLook
from streameval.statistics.arrays import FloatArray
from streameval.statistics.intervals import Intervals


class Compared(Comparison, frozen=True, kw_only=True):
    """One metric of one variant against control.

    The bounds and the verdict are corrected for the number of comparisons, so `confidence` is above
    that of the experiment if there are several.

    Attributes:
        metric: canonical text.
        variant: value of the label.
        primary: whether the metric is primary.
        among: number of comparisons that share the error.
        guardrail: limit of the lift.
        guardrail_verdict: verdict about the guardrail alone.
        days_left: days until the lift has the configured precision, if new users go on to come as
            in the second half of the days; None if none come, and with fewer than 4 days.
        detectable: lift that is found with these users in 8 of 10 experiments.
        days: evidence by day of primary metrics; empty for others, for the method "fixed",
            and without event time.
        daily: lift of each day alone of primary metrics; empty for others, and without event time.
        weekly: lift of each week alone, where `daily` has lifts.
        segment: value of the segment that is compared; None for all users.
        comparable: share of the lists in values of the segment that both variants have, if they are
            compared within these; None if not.
        text: the verdict with its variant, the same on every surface.
        sentence: the explained verdict.
        raw_lift: the lift without the adjustment by pre-experiment data; None if not adjusted.
        known: share of the users of both arms who came in the days before; None if the
            lift is not adjusted.
        narrower: share of the width of the lift's interval that adjusting saves, below 0 if it is
            wider; None if the lift is not adjusted.
        open_reason: why the verdict is open; None for others.
        within_limit: whether the guardrail counts as kept in the decision, which needs all of them;
            None without one.
        decision: about the variant; None in a segment, and without primary metrics.
        outlook: what `days_left` follows from; None with fewer than 4 days, or without a lift.
    """

    metric: str
    variant: str
    primary: bool
    among: int
    guardrail: float | None
    guardrail_verdict: GuardrailVerdict | None
    days_left: float | None = None
    detectable: float | None = None
    days: tuple[Day, ...] = ()
    daily: tuple[SpanLift, ...] = ()
    weekly: tuple[SpanLift, ...] = ()
    segment: str | None = None
    comparable: float | None = None
    text: str = ""
    sentence: str = ""
    raw_lift: float | None = None
    known: float | None = None
    narrower: float | None = None
    open_reason: OpenReason | None = None
    within_limit: bool | None = None
    decision: Decision | None = None
    outlook: Outlook | None = None

    @property
    def needed(self) -> float:
        """The evidence needed for a verdict, or the largest p-value for the method "fixed"."""
        level = 1.0 - self.confidence
        return level if self.kind == "fixed" else 1.0 / level


class VariantSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The verdicts about a variant, counted.

    Attributes:
        variant: value of the label.
        metrics: number of metrics with each verdict that some metric has.
        kept: guardrails that are kept, all together.
        broken: guardrails that are broken.
        open: guardrails of which neither is known.
        checks_passed: whether no check of the experiment raised an alarm.
        text: the summary in one line, the same on every surface.
    """

    variant: str
    metrics: Mapping[Verdict, int]
    kept: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    open: tuple[str, ...] = ()
    checks_passed: bool
    text: str = ""


class VariantDecision(msgspec.Struct, frozen=True, kw_only=True):
    """The decision about a variant, and the metrics that it follows from.

    Attributes:
        variant: value of the label.
        decision: ship, wait, ...
        better: primary metrics that are better.
        worse: primary metrics that are worse.
        kept: guardrails that are kept, all together.
        broken: guardrails that are broken.
        open: guardrails of which neither is known.
        distrusted: primary metrics and guardrails whose estimate is not to be trusted.
        text: the decision and its reason, the same on every surface.
    """

    variant: str
    decision: Decision
    better: tuple[str, ...] = ()
    worse: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    open: tuple[str, ...] = ()
    distrusted: tuple[str, ...] = ()
    text: str = ""


class Comparisons(msgspec.Struct, frozen=True, kw_only=True):
    """Variants against control.

    Attributes:
        summaries: one for each variant; those with most metrics that differ first.
        decisions: one for each variant, if there are primary metrics.
        checks: checks of the experiment's validity.
        comparisons: one for each metric and variant.
    """

    summaries: Sequence[VariantSummary]
    decisions: Sequence[VariantDecision]
    checks: Checks
    comparisons: list[Compared]


class Report(NamedTuple):
    """The current results of an experiment.

    Attributes:
        checks: of the experiment's validity.
        rows: the comparisons of all users.
        label: whose values are the variants.
        intervals: settings; the share `confidence` of verdicts and bounds is right, however many
            there are.
        segments: comparisons within each segment, which share the error among themselves.
        decisions: one for each variant, if there are primary metrics.
        look: of several planned looks; None if there is one, or any number.
        summaries: one for each variant; those with most metrics that differ first.
    """

    checks: Checks
    rows: list[Compared]
    label: str
    intervals: Intervals
    segments: Sequence[Compared] = ()
    decisions: Sequence[VariantDecision] = ()
    look: PlannedLook | None = None
    summaries: Sequence[VariantSummary] = ()

    @property
    def control(self) -> str:
        """The variant that the others are compared with."""
        return next(iter(self.checks.users))

    def finalize(self) -> Report:
        """The report with summaries and decisions; without verdicts if a check raised an alarm."""
        rows = [_finalize(row, self.checks.trouble) for row in self.rows]
        decisions = decide(rows, self.checks.trouble)
        by_variant = {decision.variant: decision.decision for decision in decisions}
        rows = [replace(row, decision=by_variant.get(row.variant)) for row in rows]
        summaries = summarize(rows, self.checks.trouble)
        return self._replace(rows=rows, decisions=decisions, summaries=summaries)

    def with_segments(self, segments: Sequence[Compared]) -> Report:
        """The report with the comparisons of each segment."""
        return self._replace(segments=[_finalize(row, self.checks.trouble) for row in segments])

    def distrust(self, reason: str) -> Report:
        """The report with all verdicts withdrawn, for one more reason."""
        checks = replace(self.checks, trouble=(*self.checks.trouble, reason))
        return self._replace(checks=checks).finalize().with_segments(self.segments)


class DraftComparison(NamedTuple):
    """A comparison before the selection among all, with what it is made of."""

    row: Compared
    contrast: Contrast | None
    settings: Settings


def correct_for_number(drafts: Sequence[DraftComparison]) -> list[Compared]:
    """Correct all comparisons but primary ones for their number.

    R of m comparisons are selected by BH, which over 1/E is e-BH. Their intervals have the error
    rate R alpha / m, and those of the others (R + 1) alpha / m: an interval excludes 0 if and only
    if its comparison is selected.
    """
    p_values = sorted(draft.row.p_value for draft in drafts if not draft.row.primary)
    among, rows = len(p_values), []
    for draft in drafts:
        if draft.row.primary:
            rows.append(draft.row)
            continue
        alpha = draft.settings.alpha
        passed = [rank for rank, p in enumerate(p_values, 1) if p * among <= rank * alpha]
        selected = max(passed, default=0)
        is_selected = selected > 0 and draft.row.p_value <= p_values[selected - 1]
        level = alpha * min(selected + (not is_selected), among) / among
        fields: dict[str, Any] = {"confidence": 1.0 - level}
        if draft.contrast is not None:
            corrected = judge(draft.contrast, draft.settings._replace(level=level))
            fields = asdict(corrected)
        rows.append(replace(draft.row, among=among, **fields))
    return rows


class UnlikeLifts(NamedTuple):
    """Two segments whose lifts surely differ: those with the lowest and the highest lift.

    Attributes:
        metric: canonical text.
        variant: value of the label.
        lowest: segment with the lowest lift of those that differ, and its lift.
        highest: segment with the highest lift of those that differ, and its lift.
    """

    metric: str
    variant: str
    lowest: tuple[str, float]
    highest: tuple[str, float]


class _SegmentLift(NamedTuple):
    """Ln of treatment / control in a segment, its influences by user group, its settings."""

    log: float
    influences: FloatArray
    segment: str
    groups: float
    settings: Settings


def unlike_lifts(drafts: Sequence[DraftComparison]) -> list[UnlikeLifts]:
    """Segments whose lifts differ most, for each metric and variant, if any do.

    All pairs of segments share the error rate with those of all metrics and variants: two that are
    chosen for being extreme are among them. A user who is in both leaves both at once.
    """
    by_key: dict[tuple[str, str], list[_SegmentLift]] = {}
    for draft in drafts:
        row, contrast = draft.row, draft.contrast
        if row.segment is not None and contrast is not None and contrast.is_usable:
            lift = _SegmentLift(*log_lift(contrast), row.segment, contrast.groups, draft.settings)
            by_key.setdefault((row.metric, row.variant), []).append(lift)
    pairs = sum(len(lifts) * (len(lifts) - 1) // 2 for lifts in by_key.values())
    differing = []
    for key, lifts in by_key.items():
        settings = lifts[0].settings
        settings = settings._replace(level=settings.alpha / max(pairs, 1))
        ascending = sorted(lifts, key=lambda lift: (lift.log, lift.segment))
        unlike = [
            (low, high)
            for low, high in combinations(ascending, 2)
            if logs_differ(
                settings,
                min(low.groups, high.groups),
                high.log - low.log,
                high.influences - low.influences,
            )
        ]
        if unlike:
            low, high = max(
                unlike, key=lambda pair: math.expm1(pair[1].log) - math.expm1(pair[0].log)
            )
            ends = ((end.segment, math.expm1(end.log)) for end in (low, high))
            differing.append(UnlikeLifts(*key, *ends))
    return differing


def guardrail_verdict(
    contrast: Contrast | None, settings: Settings, limit: float
) -> GuardrailVerdict:
    """The verdict of a guardrail: whether the lift is beyond its limit."""
    if contrast is None or contrast.basis is None:
        return GuardrailVerdict.TOO_FEW_USERS
    side = side_of_limit(contrast, settings, limit)
    if side == "unknown":
        return GuardrailVerdict.OPEN
    holds = side == ("above" if limit <= 0 else "below")
    return GuardrailVerdict.KEPT if holds else GuardrailVerdict.BROKEN


def keeps_limit(contrast: Contrast | None, settings: Settings, limit: float) -> bool:
    """True if the one-sided bound of a lift, at the error rate of the settings, keeps a limit."""
    two_sided = settings._replace(confidence=1.0 - 2.0 * settings.alpha)
    return guardrail_verdict(contrast, two_sided, limit) == GuardrailVerdict.KEPT


def summarize(rows: Sequence[Compared], reasons: Sequence[str]) -> list[VariantSummary]:
    """The verdicts about each variant, counted; those with most metrics that differ first.

    `reasons`: why not to trust any verdict.
    """
    summaries = []
    for variant in dict.fromkeys(row.variant for row in rows):
        of_variant = [row for row in rows if row.variant == variant]
        counts = Counter(row.verdict for row in of_variant)
        summaries.append(
            VariantSummary(
                variant=variant,
                metrics={verdict: counts[verdict] for verdict in Verdict if counts[verdict]},
                checks_passed=not reasons,
                **_guardrails(of_variant),
            )
        )

    def differing(summary: VariantSummary) -> int:
        return sum(number for verdict, number in summary.metrics.items() if verdict in DECIDED)

    return sorted(summaries, key=differing, reverse=True)


def _guardrails(rows: Iterable[Compared]) -> dict[str, Any]:
    """The guardrails of a variant that are kept, all together, that are broken, and the others."""
    guards = [row for row in rows if row.guardrail is not None]
    broken = [row for row in guards if row.guardrail_verdict == GuardrailVerdict.BROKEN]
    return {
        "kept": _metrics(row for row in guards if row.within_limit),
        "broken": _metrics(broken),
        "open": _metrics(row for row in guards if not row.within_limit and row not in broken),
    }


def decide(rows: Sequence[Compared], reasons: Sequence[str]) -> list[VariantDecision]:
    """Decide what to do with each variant; empty without primary metrics.

    `reasons`: why not to trust any verdict.
    """
    decisions = []
    for variant in dict.fromkeys(row.variant for row in rows if row.primary):
        of_variant = [row for row in rows if row.variant == variant]
        primary = [row for row in of_variant if row.primary]
        guards = [row for row in of_variant if row.guardrail is not None]
        variant_decision = VariantDecision(
            variant=variant,
            decision=Decision.WAIT,
            better=_metrics(row for row in primary if row.verdict == Verdict.BETTER),
            worse=_metrics(row for row in primary if row.verdict == Verdict.WORSE),
            **_guardrails(of_variant),
            distrusted=_metrics(
                row for row in [*primary, *guards] if row.verdict == Verdict.DO_NOT_TRUST
            ),
        )
        if reasons or variant_decision.distrusted:
            decision = Decision.DO_NOT_TRUST
        elif variant_decision.worse or variant_decision.broken:
            decision = Decision.DO_NOT_SHIP
        elif variant_decision.better and not variant_decision.open:
            decision = Decision.SHIP
        else:
            decision = Decision.WAIT
        decisions.append(replace(variant_decision, decision=decision))
    return decisions


def _metrics(rows: Iterable[Compared]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(row.metric for row in rows))


def _finalize(row: Compared, reasons: Sequence[str]) -> Compared:
    """The row with the reason that it is open; without a verdict if a check raised an alarm."""
    if reasons and row.verdict not in (Verdict.TOO_FEW_USERS, Verdict.NOT_JUDGED):
        row = replace(row, verdict=Verdict.DO_NOT_TRUST)
        if row.guardrail is not None:
            distrusted = GuardrailVerdict.DO_NOT_TRUST
            row = replace(row, guardrail_verdict=distrusted, within_limit=False)
    return replace(row, open_reason=_why_open(row) if row.verdict in OPEN else None)


def _why_open(row: Compared) -> OpenReason:
    if row.verdict == Verdict.TOO_FEW_USERS:
        values = row.control, row.treatment
        if None in values:
            return OpenReason.NO_LISTS
        if row.shortfall is not None:
            return OpenReason.SKEWED if row.is_skewed else OpenReason.FEW_USERS
        return OpenReason.NO_COMMON_DAY if row.difference is None else OpenReason.NO_VALUE
    if row.low is None:
        return OpenReason.NO_SPREAD
    if row.lift_low is None or row.lift_high is None or row.lift_low <= 0 <= row.lift_high:
        return OpenReason.EITHER_SIDE
    return OpenReason.LIFT_OR_DIFFERENCE
