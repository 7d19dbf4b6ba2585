"""The experiment on the page: lifts with bounds, verdicts, and checks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from streameval.analyses.experiments.checks import (
    imbalance_text,
    planned_text,
    unlabelled_text,
    users_by_variant,
)
from streameval.analyses.experiments.course import Day, SpanLift
from streameval.analyses.experiments.outcomes import (
    DECIDED,
    OPEN,
    Decision,
    GuardrailVerdict,
    OpenReason,
    Verdict,
)
from streameval.analyses.experiments.sample_ratio import ALARM
from streameval.analyses.experiments.verdicts import Compared, Report
from streameval.analyses.experiments.words import (
    decision_lines,
    e_value_text,
    guardrail_text,
    heaviest_weight,
    interval_text,
    lift_text,
    open_sentence,
    opening,
    outlook_text,
)
from streameval.exporters.page.charts import Drawing, at_day, chart_line
from streameval.exporters.page.templates import number, render
from streameval.exporters.view import UNDEFINED, lift_bounds
from streameval.inference.text_table import ForestPlot, TextColumn, TextTable
from streameval.inference.words import percent

_WIDEST: Final = 4.0
"""Bounds beyond this multiple of the median are cut, so that no metric hides the others."""

_EVIDENCE: Final = 0.1, 1e5
"""Evidence is drawn between these, and clipped beyond."""

_TONES: Final = {Decision.SHIP: "better", Decision.DO_NOT_SHIP: "worse"}


def headlines(report: Report) -> list[tuple[str, str]]:
    """The summary of each variant, with the tone of its decision, else of its verdicts."""
    decided = {
        decision.variant: _TONES.get(decision.decision, "open") for decision in report.decisions
    }
    lines = []
    for summary in report.summaries:
        verdicts = DECIDED & {*summary.metrics} if summary.checks_passed else frozenset()
        usual = "open" if len(verdicts) != 1 else next(iter(verdicts)).value
        lines.append((decided.get(summary.variant, usual), summary.text))
    return lines


def section(report: Report) -> str:
    """A table of all comparisons, one of each segment by itself, and the checks."""
    rows, order = report.rows, [summary.variant for summary in report.summaries]
    named = [(row, f"{row.metric} of {row.variant} against {report.control}") for row in rows]
    return render(
        "analyses/experiments/section.html",
        report=report,
        decisions=[
            (_TONES.get(decision.decision, "open"), line)
            for decision, line in sorted(
                zip(report.decisions, decision_lines(report), strict=True),
                key=lambda pair: order.index(pair[0].variant),
            )
        ],
        opening=opening(report),
        legend=[*_legend(report)],
        tables=[_table(report, of) for of in (rows, report.segments) if of],
        evidence=[
            (row, *_evidence(row, name))
            for row, name in named
            if row.verdict != Verdict.DO_NOT_TRUST
            and len(row.days) > 1
            and any(day.low is not None for day in row.days)
        ],
        alone=[
            _single_days(row, name)
            for row, name in named
            if sum(day.low is not None for day in row.daily) > 1
        ],
        facts=list(_facts(report)) if rows else (),
    )


def _table(report: Report, rows: Sequence[Compared]) -> TextTable[Compared]:
    several = len({row.variant for row in report.rows}) > 1
    ends, divided = _ends(rows), any(row.segment is not None for row in rows)
    segment = TextColumn[Compared]("segment", lambda row: row.segment or "")
    columns: list[TextColumn[Compared]] = [
        TextColumn(
            "metric", lambda row: row.metric, aside=lambda row: "primary" if row.primary else ""
        ),
        *[segment][:divided],
        TextColumn(
            "verdict",
            lambda row: row.text,
            tone=lambda row: row.verdict,
            more=lambda row: list(_sentences(row, report)),
        ),
        TextColumn("lift", lambda row: _lift(row.lift, row.lift_low), "right"),
        TextColumn(
            "interval of the lift",
            interval_text,
            plot=lambda row: _plot(row, ends),
        ),
        TextColumn(report.control, lambda row: number(row.control), "right", is_data=True),
        TextColumn(
            "value" if several else rows[0].variant,
            lambda row: number(row.treatment),
            "right",
            is_data=not several,
        ),
    ]
    order = [summary.variant for summary in report.summaries]
    rows = sorted(rows, key=lambda row: order.index(row.variant))
    title = f"Variants against control{' in each segment' * divided}"
    return TextTable(columns, rows, title, (lambda row: row.variant) if several else None)


def _legend(report: Report) -> Iterator[str]:
    """Explain the words of the tables, once for all rows."""
    rows = [*report.rows, *report.segments]
    yield (
        "Lift: how much higher or lower a variant's value is than that of "
        f"{report.control}, in percent."
    )
    if any(map(_is_either, rows)):
        yield (
            "Not enough evidence yet: the interval of the lift includes 0, so the variant may be "
            f"better or worse than {report.control}."
        )
    if any(map(_is_detecting, rows)):
        yield "Detectable today: the smallest lift that these users show with 80 % power."


def _is_either(row: Compared) -> bool:
    """True if the verdict is open only because the interval of the lift includes 0."""
    return row.open_reason == OpenReason.EITHER_SIDE and row.lift_low is not None


def _is_detecting(row: Compared) -> bool:
    return row.verdict == Verdict.OPEN and row.detectable is not None


def _sentences(row: Compared, report: Report) -> Iterator[tuple[str, str]]:
    """Say why a verdict is open, what would close it, and the guardrail; each with its tone.

    Nothing is promised without trust.
    """
    if row.verdict == Verdict.DO_NOT_TRUST:
        if row.reason:
            yield row.reason, ""
    else:
        if row.verdict in OPEN and not _is_either(row):
            yield open_sentence(row, report.control), ""
        # A metric that has a verdict and decides nothing waits for nothing.
        is_waiting = row.primary or row.verdict == Verdict.OPEN
        if is_waiting and (text := outlook_text(row, report.intervals.precision)):
            yield text, ""
        if _is_detecting(row):
            yield f"Detectable today: {percent(row.detectable or 0.0)}.", ""
    if row.guardrail is not None:
        yield (
            guardrail_text(row),
            "worse" if row.guardrail_verdict == GuardrailVerdict.BROKEN else "open",
        )


def _ends(rows: Sequence[Compared]) -> tuple[float, float]:
    """The ends of every plot: all lifts fit, and all bounds except far wider ones."""
    reaches = sorted(reach for row in rows if (reach := row.largest_lift) is not None)
    if not reaches:
        return -1.0, 1.0
    lifts = [abs(row.lift or 0.0) for row in rows]
    largest = max(filter(math.isfinite, lifts), default=0.0)
    usual = max(_WIDEST * reaches[len(reaches) // 2], 2.0 * largest)
    widest = max(min(reaches[-1], usual), largest, 1e-9)
    return -widest, widest


def _plot(row: Compared, ends: tuple[float, float]) -> ForestPlot:
    words = interval_text(row)
    if row.lift is not None:
        words = f"lift {percent(row.lift, '+')}, {words}"
    return ForestPlot(row.lift, row.lift_low, row.lift_high, ends, words)


def _evidence(row: Compared, name: str) -> tuple[Drawing, TextTable[Day]]:
    """The evidence by day as a chart and as a table."""
    title = f"{name}: evidence by day"
    largest = e_value_text(max(day.evidence for day in row.days))
    low, high = _EVIDENCE
    points = [(at_day(day.day), min(max(day.evidence, low), high)) for day in row.days]
    drawing = Drawing(
        title=title,
        label=f"{title}. Its maximum is {largest}.",
        note="",
        lines=[chart_line("evidence", 0, points)],
        level=row.needed,
        ends=_EVIDENCE,
        logarithmic=True,
    )
    columns: list[TextColumn[Day]] = [
        TextColumn("day", lambda day: day.day.isoformat()),
        TextColumn("evidence", lambda day: e_value_text(day.evidence), "right"),
        TextColumn("lift", lambda day: _lift(day.lift, day.low), "right"),
        TextColumn("interval", lambda day: lift_bounds(day.low, day.high), "right"),
    ]
    return drawing, TextTable(columns, row.days[::-1], title)


def _single_days(row: Compared, name: str) -> tuple[Drawing, str, list[TextTable[SpanLift]]]:
    """The lift of each day alone in percent, its scale, and tables of weeks and days."""
    title = f"{name}: lift of each day alone"
    bounds = [
        (at_day(day.start), 100.0 * day.low, 100.0 * day.high)
        for day in row.daily
        if day.low is not None and day.high is not None
    ]
    widths = sorted(max(abs(low), abs(high)) for _, low, high in bounds)
    lifts = [
        (at_day(day.start), None if day.lift is None else 100.0 * day.lift) for day in row.daily
    ]
    # All lifts fit, and most bounds.
    largest = max(abs(lift or 0.0) for _, lift in lifts)
    scale = max(largest, widths[len(widths) // 2] * 1.5, 1e-7)
    drawing = Drawing(
        title=title,
        label=title,
        note="",
        lines=[chart_line("lift", 0, lifts)],
        band=bounds,
        level=0.0,
        ends=(-scale, scale),
    )
    columns: list[TextColumn[SpanLift]] = [
        TextColumn("from", lambda span: span.start.isoformat()),
        TextColumn("lift", lambda span: _lift(span.lift, span.low), "right"),
        TextColumn("interval", lambda span: lift_bounds(span.low, span.high), "right"),
    ]
    weekly = TextTable(columns, row.weekly[::-1], f"{name}: lift of each week alone")
    return drawing, percent(scale / 100.0), [weekly, TextTable(columns, row.daily[::-1], title)]


def _lift(lift: float | None, low: float | None) -> str:
    return lift_text(lift, low) or UNDEFINED


def _facts(report: Report) -> Iterator[tuple[str, str, str]]:
    """Facts about the users: name, text, and a smaller explanation."""
    checks = report.checks

    def share_text(share: float) -> str:
        return percent(share) if share else "none"

    yield "users", users_by_variant(checks.users, is_sample=checks.is_sample), ""
    split = "no: planned" if checks.ratio_evidence >= ALARM else "yes:"
    since = f" since {checks.splits[-1].since}" if len(checks.splits) > 1 else ""
    planned = f"{split} {planned_text(checks.shares)}{since}"
    yield "split as planned", planned, imbalance_text(checks)
    several = "by design" if checks.same_users else share_text(checks.shared)
    yield "users in several variants", several, ""
    of_a_variant = "of the lists of one variant at most" if checks.anonymous else ""
    yield "lists without a user id", share_text(checks.anonymous), of_a_variant
    if unlike := unlabelled_text(checks):
        yield "users with lists without a variant", unlike, ""
    # Much more than the others is a warning.
    if weight := heaviest_weight(report.rows):
        yield "largest share of variance from one user bucket", *weight
    yield "period", checks.period, ""
    if checks.notes:
        yield "note", "; ".join(checks.notes), ""
    if checks.left_out:
        yield "not compared", ", ".join(checks.left_out), ""
