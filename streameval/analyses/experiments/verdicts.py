"""Verdicts of many comparisons: the error that they share, and guardrails.

Of many comparisons, those that stand out are read, and their bounds are too good if each holds by
itself. So a verdict and its bounds come from the same corrected interval: comparisons are selected
by the procedure of Benjamini and Hochberg (e-BH over e-values), and the bounds of the R selected
among m have the error rate R alpha / m (Benjamini, Yekutieli, 2005; Xu, Wang, Ramdas, 2022).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import asdict, replace

from streameval.analyses.experiments.checks import Checks
from streameval.analyses.experiments.comparison import Comparison, Settings, judge, side_of_limit
from streameval.analyses.experiments.course import Day, SpanLift
from streameval.analyses.experiments.outcomes import OPEN, GuardrailVerdict, OpenReason, Verdict
from streameval.inference.contrasts import Contrast
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
        guardrail_verdict: verdict about the guardrail.
        days_left: days until the lift has the configured precision, if its interval goes on to
            narrow as it did in the second half of the days; None with fewer than 4 days.
        detectable: lift that is found with these users in 8 of 10 experiments.
        days: evidence by day of primary metrics; empty for others, and for the method "fixed".
        daily: lift of each day alone of primary metrics; empty for others.
        weekly: lift of each week alone, likewise.
        segment: value of the segment that is compared; None for all users.
        comparable: share of the lists in values of the segment that both variants have, if they are
            compared within these; None if not.
        open_reason: why the verdict is open; None for others.
        text: the verdict with its variant, the same on every surface.
        sentence: the explained verdict.
        raw_lift: the lift before it was adjusted by what users did before; None if it is not.
        known: share of the users of both arms who came in the days before; None likewise.
        narrower: share of the width of the lift's interval that adjusting saves, below 0 if it is
            wider; None likewise.
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
    open_reason: OpenReason | None = None
    text: str = ""
    sentence: str = ""
    raw_lift: float | None = None
    known: float | None = None
    narrower: float | None = None

    @property
    def needed(self) -> float:
        """The evidence needed for a verdict, or the largest p-value for the method "fixed"."""
        level = 1.0 - self.confidence
        return level if self.kind == "fixed" else 1.0 / level


class Comparisons(msgspec.Struct, frozen=True, kw_only=True):
    """Variants against control.

    Attributes:
        checks: checks of the experiment's validity.
        comparisons: one for each metric and variant.
    """

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
        segments: comparisons of each segment by itself, which share the error among themselves.
    """

    checks: Checks
    rows: list[Compared]
    label: str
    intervals: Intervals
    segments: Sequence[Compared] = ()

    @property
    def control(self) -> str:
        """The variant that the others are compared with."""
        return next(iter(self.checks.users))

    def untrusted(self, trouble: str) -> Report:
        """The report with all verdicts withdrawn, for one more reason."""
        checks = replace(self.checks, trouble=(*self.checks.trouble, trouble))
        rows, segments = (
            [settle(row, checks.trouble) for row in rows] for rows in (self.rows, self.segments)
        )
        return self._replace(checks=checks, rows=rows, segments=segments)


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


def guardrail_verdict(
    contrast: Contrast | None, settings: Settings, limit: float
) -> GuardrailVerdict:
    """The verdict of a guardrail: whether the lift is beyond its limit."""
    if contrast is None or not contrast.is_usable:
        return GuardrailVerdict.TOO_FEW_USERS
    side = side_of_limit(contrast, settings, limit)
    if side == "unknown":
        return GuardrailVerdict.OPEN
    is_kept = side == ("above" if limit <= 0 else "below")
    return GuardrailVerdict.KEPT if is_kept else GuardrailVerdict.BROKEN


def settle(row: Compared, trouble: Sequence[str]) -> Compared:
    """The row with the reason that it is open; without a verdict if a check raised an alarm."""
    if trouble and row.verdict not in (Verdict.TOO_FEW_USERS, Verdict.NOT_JUDGED):
        row = replace(row, verdict=Verdict.DO_NOT_TRUST)
        if row.guardrail is not None:
            row = replace(row, guardrail_verdict=GuardrailVerdict.DO_NOT_TRUST)
    return replace(row, open_reason=_why_open(row) if row.verdict in OPEN else None)


def _why_open(row: Compared) -> OpenReason:
    if row.verdict == Verdict.TOO_FEW_USERS:
        values = row.control, row.treatment
        for value in values:
            if value is None:
                return OpenReason.NO_LISTS
            if value <= 0:
                return OpenReason.NO_VALUE
        if row.difference is None:
            return OpenReason.NO_COMMON_DAY
        return OpenReason.SKEWED if row.is_skewed else OpenReason.FEW_USERS
    if row.lift_low is None or row.lift_high is None:
        return OpenReason.NO_SPREAD
    covers = row.lift_low <= 0 <= row.lift_high
    return OpenReason.EITHER_SIDE if covers else OpenReason.LIFT_OR_DIFFERENCE
