"""Verdicts of many comparisons: the error that they share, guardrails, and their sentences.

Of many comparisons, those that stand out are read, and their bounds are too good if each holds by
itself. So a verdict and its bounds come from the same corrected interval: comparisons are selected
by the procedure of Benjamini and Hochberg (e-BH over e-values), and the bounds of the R selected
among m have the error rate R alpha / m (Benjamini, Yekutieli, 2005; Xu, Wang, Ramdas, 2022).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import asdict, replace

from streameval.analyses.experiments.checks import Checks
from streameval.analyses.experiments.comparison import (
    DECIDED,
    Comparison,
    Settings,
    bound_text,
    e_value_text,
    evidence_text,
    judge,
    side_of_limit,
    verdict_text,
)
from streameval.analyses.experiments.course import Day, SpanLift
from streameval.exporters.view import figure, lift_bounds
from streameval.inference.contrasts import Contrast
from streameval.inference.interval_formulas import FEWEST_GROUPS
from streameval.inference.table import TextColumn, TextTable
from streameval.inference.words import percent
from streameval.statistics.intervals import Intervals, Method

GuardrailVerdict: TypeAlias = Literal[
    "kept", "broken", "not enough evidence", "too few users", "do not trust"
]
"""The verdicts of a guardrail."""


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

    @property
    def opening(self) -> list[str]:
        """Why not to trust the numbers, else what they promise together; empty without any."""
        if self.checks.trouble or not self.rows:
            return [f"Do not trust these numbers: {reason}." for reason in self.checks.trouble]
        return [promise(self.rows[0].kind, self.intervals.confidence)]

    def untrusted(self, trouble: str) -> Report:
        """The report with all verdicts withdrawn, for one more reason."""
        checks = replace(self.checks, trouble=(*self.checks.trouble, trouble))
        rows, segments = (
            [explain_row(row, checks.trouble, self.control) for row in rows]
            for rows in (self.rows, self.segments)
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
        return "too few users"
    side = side_of_limit(contrast, settings, limit)
    if side == "unknown":
        return "not enough evidence"
    return "kept" if side == ("above" if limit <= 0 else "below") else "broken"


def explain_row(row: Compared, trouble: Sequence[str], control: str) -> Compared:
    """The row with its text and its sentence; without a verdict if a check raised an alarm."""
    if trouble and row.verdict not in ("too few users", "not judged"):
        row = replace(row, verdict="do not trust")
        if row.guardrail is not None:
            row = replace(row, guardrail_verdict="do not trust")
    verb = " is " if row.verdict in DECIDED else ": "
    text = f"{row.variant}{verb}{verdict_text(row)}"
    return replace(row, text=text, sentence=_sentence(row, control))


def guardrail_text(row: Compared) -> str:
    """The verdict about the guardrail of a row that has one.

    Example:
        >>> row = Compared(
        ...     metric="ctr", variant="b", control=0.1, treatment=0.1, primary=False, among=1,
        ...     guardrail=-0.01, guardrail_verdict="kept", kind="fixed",
        ...     confidence=0.95,
        ... )
        >>> guardrail_text(row)
        'b keeps the guardrail of -1.0 %'
    """
    limit = percent(row.guardrail or 0.0, "+")
    verb = {"kept": "keeps", "broken": "breaks"}.get(row.guardrail_verdict or "")
    if verb is not None:
        return f"{row.variant} {verb} the guardrail of {limit}"
    yet = " yet" if row.guardrail_verdict == "not enough evidence" else ""
    return f"{row.variant}, guardrail of {limit}: {row.guardrail_verdict}{yet}"


def heaviest_weight(rows: Sequence[Compared]) -> tuple[str, str] | None:
    """The share of the group of users that weighs most, and of what; None if nothing varies.

    Example:
        >>> row = Compared(
        ...     metric="ctr", variant="b", control=0.1, treatment=0.1, primary=False, among=1,
        ...     guardrail=None, guardrail_verdict=None, kind="fixed", confidence=0.95,
        ...     heaviest=0.08,
        ... )
        >>> heaviest_weight([row])
        ('8.0 %', 'of the uncertainty in ctr of b')
    """
    heaviest = max(rows, key=lambda row: row.heaviest, default=None)
    if heaviest is None or not heaviest.heaviest:
        return None
    where = f"of the uncertainty in {heaviest.metric} of {heaviest.variant}"
    return percent(heaviest.heaviest), where


def needed_text(row: Compared) -> str:
    """The evidence beside what a verdict needs; p-values for the method "fixed"."""
    evidence = evidence_text(row)
    if row.difference is None:
        return evidence
    if row.kind == "fixed":
        sign = "≤" if row.p_value <= row.needed else ">"
        return f"{evidence} {sign} {row.needed:.2g}"
    sign = "≥" if row.evidence >= row.needed else "<"
    return f"{evidence} {sign} {e_value_text(row.needed)}"


def promise(method: Method, confidence: float) -> str:
    """What verdicts and bounds promise together.

    Example:
        >>> promise("anytime", 0.95)
        'At most 5 % of verdicts and intervals are wrong, however often you look.'
    """
    looks = {
        "fixed": "if you look once, at a planned time",
        "anytime": "however often you look",
    }
    wrong = f"{100.0 * (1.0 - confidence):.4g} %"
    return f"At most {wrong} of verdicts and intervals are wrong, {looks[method]}."


def _sentence(row: Compared, control: str) -> str:
    if row.verdict == "not judged":
        return f"not judged: {row.segment} stands for events of other values, or of none."
    if row.verdict == "do not trust":
        return row.reason or "do not trust this: a check of the experiment failed."
    if row.verdict == "no difference" and row.largest_lift is not None:
        most = percent(row.largest_lift, "", math.ceil)
        return f"{row.variant} and {control} differ by {most} at most."
    if row.verdict in ("not enough evidence", "too few users"):
        return ": ".join(open_reason(row, control))
    how = "differs from" if row.verdict == "different" else f"is {row.verdict} than"
    return f"{row.variant} {how} {control}: {bound_text(row)}."


class OpenReason(NamedTuple):
    """Why a verdict is open.

    Attributes:
        state: the verdict in words, or what it waits for.
        clause: the reason, to be read after a colon.
    """

    state: str
    clause: str

    def after(self, verdict: str) -> str:
        """The reason to be read after the words of a verdict, which are not repeated."""
        if self.state == verdict:
            return self.clause[:1].upper() + self.clause[1:]
        return ": ".join(self)


def open_reason(row: Compared, control: str) -> OpenReason:
    """Why there are too few users, or not enough evidence."""
    few, yet = "too few users", "not enough evidence yet"
    if row.verdict != few:
        if row.lift_low is None or row.lift_high is None:
            return OpenReason(yet, "all users are alike, so the error cannot be estimated.")
        low = percent(row.lift_low, "+", math.floor)
        where = f"the lift lies between {low} and {percent(row.lift_high, '+', math.ceil)}"
        if row.lift_low > 0 or row.lift_high < 0:
            more = f"more users of {row.variant} and {control} are needed"
            return OpenReason(yet, f"{where}, but the difference may be 0: {more}.")
        return OpenReason(yet, f"{where}, so {row.variant} may be better or worse than {control}.")
    for name, value in ((control, row.control), (row.variant, row.treatment)):
        if value is None:
            return OpenReason(few, f"{name} has no lists yet.")
        if value <= 0:
            return OpenReason("nothing to compare yet", f"{row.metric} of {name} is {value:g}.")
    if row.difference is None:
        return OpenReason(few, f"{row.variant} and {control} have no day in common.")
    times = row.shortfall or 1.0
    more = f"{times:,.0f}" if times >= 10 else f"{math.ceil(10 * times) / 10:.1f}"
    if row.is_skewed:
        return OpenReason(
            few,
            f"a few large values decide {row.metric}, and the smaller variant has "
            f"too few users to show them; it needs about {more} times as many, or the values a "
            "cap, as in value_per_list(cap=100).",
        )
    groups = max((FEWEST_GROUPS + 1) / times - 1.0, 0.0)
    return OpenReason(
        few,
        f"those of the smaller variant are worth {groups:.1f} equally "
        f"active ones, and {FEWEST_GROUPS} are needed: about {more} times as many users.",
    )


def comparison_table(rows: Sequence[Compared]) -> TextTable[Compared]:
    """A line for each comparison; the variant has a column only if there are several."""
    first, several = rows[0], len({row.variant for row in rows}) > 1
    divided = any(row.segment is not None for row in rows)
    evidence = "p-value" if first.kind == "fixed" else "evidence"

    def mean(value: float | None) -> str:
        return "" if value is None else figure(value)

    segment: TextColumn[Compared] = TextColumn("segment", lambda row: row.segment or "")
    variant: TextColumn[Compared] = TextColumn("variant", lambda row: row.variant)
    columns: list[TextColumn[Compared]] = [
        TextColumn("metric", lambda row: f"{row.metric}{' *' * row.primary}"),
        *[segment][:divided],
        *[variant][:several],
        TextColumn("control", lambda row: mean(row.control), "right"),
        TextColumn("value" if several else first.variant, lambda row: mean(row.treatment), "right"),
        TextColumn("lift", lambda row: "" if row.lift is None else percent(row.lift, "+"), "right"),
        TextColumn(
            "interval of the lift", lambda row: lift_bounds(row.lift_low, row.lift_high), "right"
        ),
        TextColumn(f"{evidence}, needed", needed_text, "right"),
        TextColumn("verdict", lambda row: row.text, tone=lambda row: row.verdict),
    ]
    return TextTable(columns, rows)
