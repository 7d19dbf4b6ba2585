"""Sentences about experiments: each one about a verdict is made here, from its code."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from streameval.accumulator.overlap import bias_text
from streameval.analyses.experiments.checks import users_text
from streameval.analyses.experiments.comparison import Comparison
from streameval.analyses.experiments.outcomes import (
    DECIDED,
    OPEN,
    Decision,
    GuardrailVerdict,
    OpenReason,
    Verdict,
)
from streameval.analyses.experiments.settings import Experiment
from streameval.analyses.experiments.verdicts import (
    Compared,
    Report,
    VariantDecision,
    VariantSummary,
)
from streameval.exporters.view import figure, lift_bounds
from streameval.inference.interval_formulas import FEWEST_GROUPS
from streameval.inference.planned_looks import PlannedLook
from streameval.inference.text_table import TextColumn, TextTable
from streameval.inference.words import list_text, percent
from streameval.statistics.intervals import Method

FARTHEST: Final = 4
"""Predictions go up to this many times the days counted."""

_NOTHING: Final = "nothing to compare yet"


def in_words(report: Report) -> Report:
    """The report with what its verdicts say in words, the same on every surface."""
    rows, segments = (
        [_row_in_words(row, report.control) for row in rows]
        for rows in (report.rows, report.segments)
    )
    decisions = [
        replace(decision, text=_decision_text(decision, report)) for decision in report.decisions
    ]
    summaries = [replace(summary, text=_summary_text(summary)) for summary in report.summaries]
    return report._replace(rows=rows, segments=segments, decisions=decisions, summaries=summaries)


def _summary_text(summary: VariantSummary) -> str:
    """Summarize how many metrics differ, else why none does; the guardrails; the checks."""
    if not summary.checks_passed:
        return f"{summary.variant}: do not trust any verdict; a check failed."
    counts, total = summary.metrics, sum(summary.metrics.values())
    metrics = f"{total:,} metric{'s' * (total > 1)}"
    if differing := [verdict for verdict in counts if verdict in DECIDED]:
        parts = [f"{verdict} on {counts[verdict]:,}" for verdict in differing]
        sentence = f"{summary.variant} is {list_text(parts)} of {metrics}"
        if distrusted := counts.get(Verdict.DO_NOT_TRUST):
            sentence += f", {distrusted:,} not to be trusted"
    else:
        parts = [f"{verdict} on {number:,}" for verdict, number in counts.items()]
        sentence = f"{summary.variant}: {list_text(parts)} of {metrics}"
    guardrails = [
        f"{_guardrails_of(names)} {state}"
        for names, state in ((summary.broken, "broken"), (summary.open, "not decided"))
        if names
    ]
    if summary.kept and not guardrails:
        guardrails = [f"guardrail{'s' * (len(summary.kept) > 1)} kept"]
    return f"{'; '.join([sentence, *guardrails, 'checks passed'])}."


def _guardrails_of(metrics: Sequence[str]) -> str:
    return f"guardrail{'s' * (len(metrics) > 1)} of {list_text(metrics)}"


def _decision_text(decision: VariantDecision, report: Report) -> str:
    """The decision about a variant, and why."""
    guardrails, reasons = _guardrails_text(decision), list[str]()
    match decision.decision:
        case Decision.SHIP:
            better = (
                f"{_are(decision.better, 'better')}{f' and {guardrails}' if guardrails else ''}"
            )
            wrong = _share_wrong(report.intervals.confidence)
            reasons = [f"{better} (at most {wrong} of such decisions are wrong)"]
        case Decision.DO_NOT_SHIP:
            if decision.worse:
                reasons.append(_are(decision.worse, "worse"))
            if decision.broken:
                are = "are" if len(decision.broken) > 1 else "is"
                reasons.append(f"the {_guardrails_of(decision.broken)} {are} broken")
            reasons = [" and ".join(reasons)]
        case Decision.WAIT:
            if not decision.better:
                reasons.append("no primary metric is better yet")
            if decision.open:
                keeps = (
                    "stay within their limits"
                    if len(decision.open) > 1
                    else "stays within its limit"
                )
                reasons.append(f"it is not yet known whether {list_text(decision.open)} {keeps}")
            elif guardrails:
                reasons.append(guardrails)
        case Decision.DO_NOT_TRUST:
            reasons = ["a check of the experiment failed"]
            if not report.checks.trouble:
                reasons = [_are(decision.distrusted, "not trustworthy")]
    return f"{decision.variant}: {decision.decision}: {'; '.join(reasons)}."


def _are(metrics: Sequence[str], what: str) -> str:
    return f"{list_text(metrics)} {'are' if len(metrics) > 1 else 'is'} {what}"


def _guardrails_text(decision: VariantDecision) -> str:
    """Sentence that all guardrails are kept; empty without any."""
    match len(decision.kept):
        case 0:
            return ""
        case 1:
            return "the guardrail is kept"
        case 2:
            return "both guardrails are kept"
        case number:
            return f"all {number} guardrails are kept"


def _row_in_words(row: Compared, control: str) -> Compared:
    verb = " is " if row.verdict in DECIDED else ": "
    row = replace(row, text=f"{row.variant}{verb}{verdict_text(row)}")
    return replace(row, sentence=_sentence(row, control))


def summary_lines(report: Report) -> list[str]:
    """The verdicts about each variant in one line."""
    return [summary.text for summary in report.summaries]


def decision_lines(report: Report) -> list[str]:
    """Recommended action for each variant, a line each; empty without primary metrics."""
    return [f"Decision: {decision.text}" for decision in report.decisions]


def checks_line(report: Report, experiment: Experiment) -> str:
    """The users of the variants: how they are split, and what they may not be."""
    checks, since, until = report.checks, experiment.begins, experiment.until
    days = f" since {since}" * (since is not None) + f" until {until}" * (until is not None)
    return (
        f"Checks{days}: users {users_text(checks)}; in several variants {percent(checks.shared)}; "
        f"lists without a user id {percent(checks.anonymous)}."
    )


def opening(report: Report) -> list[str]:
    """Reasons not to trust the numbers, else their joint guarantee; empty without any."""
    if report.checks.trouble or not report.rows:
        return [f"Do not trust these numbers: {reason}." for reason in report.checks.trouble]
    return [promise(report.rows[0].kind, report.intervals.confidence, report.look)]


def closing(report: Report, experiment: Experiment) -> Iterator[str]:
    """Text below the comparisons: the checks, guardrails, and why a row has no interval."""
    rows, checks = report.rows, report.checks
    yield checks_line(report, experiment)
    yield from filter(None, (checks.period, checks.adjustment))
    if weight := heaviest_weight(rows):
        yield f"Largest share of variance from one user bucket: {' '.join(weight)}."
    for note in checks.notes:
        yield f"Note: {note}."
    if checks.left_out:
        yield f"Left out, not among the planned variants: {', '.join(checks.left_out)}."
    for row in rows:
        if row.guardrail is not None:
            yield f"{row.metric}: {guardrail_text(row)}."
    for row in rows:
        if row.lift_low is None and row.verdict != Verdict.DO_NOT_TRUST:
            yield f"{row.metric} of {row.variant}: {row.sentence}"


def verdict_text(row: Comparison) -> str:
    """A verdict in a few words.

    Example:
        >>> bounds = {"lift_low": -0.3, "lift_high": -0.0595}
        >>> verdict_text(Comparison(**bounds, verdict=Verdict.WORSE, kind="fixed", confidence=0.95))
        'worse: by at least 5.9 %'
        >>> verdict_text(Comparison(kind="anytime", confidence=0.95))
        'too few users'
    """
    if row.verdict in DECIDED:
        return f"{row.verdict}: {bound_text(row)}"
    if row.verdict == Verdict.NO_DIFFERENCE and row.largest_lift is not None:
        return f"no difference above {percent(row.largest_lift, '', math.ceil)}"
    if row.overlap is not None:
        return bias_text(row.overlap)
    return f"{row.verdict}{' yet' if row.verdict == Verdict.OPEN else ''}"


def bound_text(row: Comparison) -> str:
    """Least difference of a decided comparison: in percent, or without a lift in its unit.

    Example:
        >>> row = Comparison(
        ...     control=0.0, treatment=0.12, low=0.096678, high=0.12, verdict=Verdict.BETTER,
        ...     kind="fixed", confidence=0.95,
        ... )
        >>> bound_text(row)
        'by at least 0.09667'
    """
    has_lift = row.lift_low is not None and row.lift_high is not None
    low, high = (row.lift_low, row.lift_high) if has_lift else (row.low, row.high)
    nearest = min(low or 0.0, high or 0.0, key=abs)
    side = "" if row.verdict != Verdict.DIFFERENT else "higher " if nearest > 0 else "lower "
    most = percent(abs(nearest), "", math.floor) if has_lift else _figure_below(abs(nearest))
    return f"{side}by at least {most}"


def _figure_below(value: float) -> str:
    """A value above 0 as it is printed, rounded down."""
    digits = 4 if value >= 0.1 else 3 - math.floor(math.log10(value)) if value > 0 else 0
    return figure(math.floor(value * 10.0**digits) / 10.0**digits)


def interval_text(row: Comparison) -> str:
    """The interval of the lift; without a lift, that of the difference.

    Example:
        >>> interval_text(Comparison(low=-1.5, high=3.25, kind="fixed", confidence=0.95))
        'difference -1.5000 to +3.2500'
    """
    if row.lift_low is None and row.low is not None and row.high is not None:
        return f"difference {_signed_figure(row.low)} to {_signed_figure(row.high)}"
    return lift_bounds(row.lift_low, row.lift_high)


def _signed_figure(value: float) -> str:
    return f"{'' if value < 0 else '+'}{figure(value)}"


def evidence_text(row: Comparison) -> str:
    """The evidence against no difference: a p-value for the method "fixed", else an e-value.

    Example:
        >>> evidence_text(Comparison(evidence=137.2, kind="anytime", confidence=0.95))
        '137'
    """
    return f"{row.p_value:.2g}" if row.kind == "fixed" else e_value_text(row.evidence)


def e_value_text(evidence: float) -> str:
    """An e-value as text.

    Example:
        >>> e_value_text(0.0123), e_value_text(1234.5), e_value_text(1e9)
        ('0.012', '1,234', '>1e6')
    """
    if evidence < 10:
        return f"{evidence:.2g}"
    return f"{evidence:,.0f}" if evidence < 1e6 else ">1e6"


def guardrail_text(row: Compared) -> str:
    """The verdict about the guardrail of a row that has one.

    Example:
        >>> row = Compared(
        ...     metric="ctr", variant="b", control=0.1, treatment=0.1, primary=False, among=1,
        ...     guardrail=-0.01, guardrail_verdict=GuardrailVerdict.KEPT, kind="fixed",
        ...     confidence=0.95,
        ... )
        >>> guardrail_text(row)
        'b keeps the guardrail of -1.0 %'
    """
    limit = percent(row.guardrail or 0.0, "+")
    verbs = {GuardrailVerdict.KEPT: "keeps", GuardrailVerdict.BROKEN: "breaks"}
    verdict = row.guardrail_verdict or GuardrailVerdict.OPEN
    if verdict in verbs:
        return f"{row.variant} {verbs[verdict]} the guardrail of {limit}"
    yet = " yet" if verdict == GuardrailVerdict.OPEN else ""
    if row.within_limit and row.decision is not None:
        yet += " on its own; kept for the decision"
    return f"{row.variant}, guardrail of {limit}: {verdict}{yet}"


def heaviest_weight(rows: Sequence[Compared]) -> tuple[str, str] | None:
    """The largest share of variance from one user bucket, and of what; None if nothing varies.

    Example:
        >>> row = Compared(
        ...     metric="ctr", variant="b", control=0.1, treatment=0.1, primary=False, among=1,
        ...     guardrail=None, guardrail_verdict=None, kind="fixed", confidence=0.95,
        ...     heaviest=0.08,
        ... )
        >>> heaviest_weight([row])
        ('8.0 %', 'in ctr of b')
    """
    heaviest = max(rows, key=lambda row: row.heaviest, default=None)
    if heaviest is None or not heaviest.heaviest:
        return None
    where = f"in {heaviest.metric} of {heaviest.variant}"
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


def promise(method: Method, confidence: float, look: PlannedLook | None = None) -> str:
    """Joint guarantee of verdicts and bounds, in a sentence.

    Example:
        >>> promise("anytime", 0.95)
        'At most 5 % of verdicts and intervals are wrong, however often you look.'
    """
    looks = {
        "fixed": "if you look once, at a planned time",
        "anytime": "however often you look",
    }[method]
    if look is not None:
        looks = (
            f"if you look {look.looks} times as planned, at equal distances; this is look "
            f"{look.look}"
        )
    return f"At most {_share_wrong(confidence)} of verdicts and intervals are wrong, {looks}."


def _share_wrong(confidence: float) -> str:
    return f"{100.0 * (1.0 - confidence):.4g} %"


def _sentence(row: Compared, control: str) -> str:
    if row.verdict == Verdict.NOT_JUDGED:
        return f"not judged: {row.segment} collects other or missing values."
    if row.verdict == Verdict.DO_NOT_TRUST:
        return row.reason or "do not trust this: a check of the experiment failed."
    if row.verdict == Verdict.NO_DIFFERENCE and row.largest_lift is not None:
        most = percent(row.largest_lift, "", math.ceil)
        return f"{row.variant} and {control} differ by {most} at most."
    if row.verdict in OPEN:
        state = _NOTHING if row.open_reason == OpenReason.NO_VALUE else verdict_text(row)
        return f"{state}: {_open_clause(row, control)}"
    if row.expected is not None:
        return f"{without_value(row, control)}. If they are, {row.text}."
    how = "differs from" if row.verdict == Verdict.DIFFERENT else f"is {row.verdict} than"
    return f"{row.variant} {how} {control}: {bound_text(row)}{_without_lift(row, control)}."


def without_value(row: Compared, control: str) -> str:
    """Sentence that the values of an arm are all 0, for a row with an expected value."""
    lost, expected = control if (row.control or 0.0) <= 0 else row.variant, row.expected or 0.0
    return (
        f"{row.metric} of {lost} is 0, where {figure(expected)} was expected: check that its "
        "interactions are recorded"
    )


def _without_lift(row: Compared, control: str) -> str:
    """Reason why a comparison that has bounds has no lift; "" if it has one."""
    if row.low is None or row.lift_low is not None:
        return ""
    name = control if (row.control or 0.0) <= 0 or (row.treatment or 0.0) > 0 else row.variant
    return f" (no lift: the value of {name} is not surely above 0)"


def open_sentence(row: Compared, control: str) -> str:
    """Say why a verdict is open, beside its words, which are not repeated."""
    clause = _open_clause(row, control)
    if row.open_reason == OpenReason.NO_VALUE:
        return f"{_NOTHING}: {clause}"
    return clause[:1].upper() + clause[1:]


def _open_clause(row: Compared, control: str) -> str:
    """The reason that a verdict is open, to be read after a colon."""
    arms = (control, row.control), (row.variant, row.treatment)
    match row.open_reason:
        case OpenReason.NO_LISTS:
            return f"{next(name for name, value in arms if value is None)} has no lists yet."
        case OpenReason.NO_VALUE:
            name, value = next((name, value or 0.0) for name, value in arms if (value or 0.0) <= 0)
            return f"{row.metric} of {name} is {value:g}."
        case OpenReason.NO_COMMON_DAY:
            return f"{row.variant} and {control} have no day in common."
        case OpenReason.NO_SPREAD:
            return "all users have the same values, so the error cannot be estimated."
        case OpenReason.LIFT_OR_DIFFERENCE:
            more = f"more users of {row.variant} and {control} are needed"
            return f"{_lift_between(row)}, but the difference may be 0: {more}."
        case OpenReason.SKEWED:
            return (
                f"a few large values decide {row.metric}, and the smaller variant has too few "
                f"users to show them. It needs about {_times_as_many(row)} times as many, or cap "
                "the values: value_per_list(cap=100), or cap=p99.5 for files."
            )
        case OpenReason.FEW_USERS:
            groups = max((FEWEST_GROUPS + 1) / (row.shortfall or 1.0) - 1.0, 0.0)
            return (
                f"the smaller variant has {groups:.1f} equally active users' worth of data and "
                f"needs {FEWEST_GROUPS}, about {_times_as_many(row)} times as many users."
            )
        case _:
            either = f"{row.variant} may be better or worse than {control}"
            return f"{_lift_between(row)}, so {either}{_without_lift(row, control)}."


def _lift_between(row: Compared) -> str:
    if row.lift_low is None:
        return (
            f"the {interval_text(row).replace(' ', ' lies between ', 1).replace(' to ', ' and ')}"
        )
    low = percent(row.lift_low or 0.0, "+", math.floor)
    return f"the lift lies between {low} and {percent(row.lift_high or 0.0, '+', math.ceil)}"


def _times_as_many(row: Compared) -> str:
    times = row.shortfall or 1.0
    return f"{times:,.0f}" if times >= 10 else f"{math.ceil(10 * times) / 10:.1f}"


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
        TextColumn("lift", lambda row: lift_text(row.lift, row.lift_low), "right"),
        TextColumn("interval of the lift", interval_text, "right"),
        TextColumn(f"{evidence}, needed", needed_text, "right"),
        TextColumn("verdict", lambda row: row.text, tone=lambda row: row.verdict),
    ]
    return TextTable(columns, rows)


def outlook_text(row: Compared, precision: float) -> str:
    """Say when the lift is known to a precision; empty if it is, or if no one can say."""
    outlook, left = row.outlook, row.days_left
    if outlook is None or left == 0:
        return ""
    interval = f"±{percent(precision)}"
    if left is None:
        needed = f"about {outlook.users:,.0f} users"
        return f"Without new users, {interval} is out of reach: it needs {needed}."
    if left > FARTHEST * outlook.days:
        far = f"more than {FARTHEST * outlook.days:,} days"
    else:
        days = max(1, math.ceil(left))
        far = f"about {days:,} day{'s' * (days > 1)}"
    return f"{interval} is {far} away at {pace_text(outlook.new_users)}."


def pace_text(new: float) -> str:
    """Number of new users a day, in words.

    Example:
        >>> pace_text(51.4), pace_text(0.34)
        ('51 new users a day', '0.34 new users a day')
    """
    return f"{new:,.0f} new users a day" if new >= 10 else f"{new:.2g} new users a day"


def lift_text(lift: float | None, low: float | None) -> str:
    """A lift that has an interval, of which `low` is an end; empty without one: it is noise.

    Example:
        >>> lift_text(0.372, 0.01), lift_text(0.372, None)
        ('+37.2 %', '')
    """
    return "" if lift is None or low is None else percent(lift, "+")
