"""The experiment on the page: lifts with bounds, verdicts, and checks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from streameval.analyses.experiments.checks import Checks, imbalance_text, planned_text
from streameval.analyses.experiments.comparison import Comparison, e_value_text, verdict_text
from streameval.analyses.experiments.course import Day, SpanLift
from streameval.analyses.experiments.report import Report
from streameval.analyses.experiments.sample_ratio import ALARM
from streameval.analyses.experiments.verdicts import (
    Compared,
    guardrail_text,
    heaviest_weight,
    open_reason,
    promise,
)
from streameval.exporters.page.markup import Markup, grid, plain_grid, tag
from streameval.exporters.view import UNDEFINED, figure, lift_bounds
from streameval.inference.table import TextColumn, TextTable
from streameval.inference.words import percent

_HALF: Final = 100.0
"""Half of a forest plot's width, in SVG units."""

_WIDEST: Final = 4.0
"""Bounds beyond this multiple of the median are cut, so that no metric hides the others."""

_WIDTH: Final = 600.0
_HEIGHT: Final = 100.0
"""Size of the chart of evidence by day, in SVG units."""

_DECADES: Final = (-1.0, 5.0)
"""Evidence is drawn from 0.1 to 100,000, and clipped beyond."""

_YEAR: Final = 365

_Fact: TypeAlias = tuple[str, str, str]
"""Name, text, and a smaller explanation."""


_LIFT: Final = (
    "The lift is how much higher or lower the value of a variant is than that of {}, in percent."
)


def section(report: Report) -> Markup:
    """A table of all comparisons, and the checks."""
    if not report.rows:
        return tag("p", "No list of the experiment has been counted yet.", kind="quiet")
    return tag(
        "",
        *_promises(report),
        tag("p", _LIFT.format(next(iter(report.checks.users))), kind="quiet"),
        _table(report),
        *(_by_day(row, report) for row in report.rows if _has_days(row)),
        *(_alone(row, report) for row in report.rows if _has_spans(row)),
        _checks(report),
    )


def _promises(report: Report) -> Iterator[Markup]:
    """Why not to trust the verdicts, or what they promise."""
    for trouble in report.checks.trouble:
        yield tag("p", f"Do not trust these numbers: {trouble}.", kind="alarm")
    if not report.checks.trouble:
        yield tag("p", promise(report.rows[0].kind, report.intervals.confidence), kind="quiet")


def _table(report: Report) -> Markup:
    control = next(iter(report.checks.users))
    several = len({row.variant for row in report.rows}) > 1
    columns = {
        "metric": "",
        **({"variant": ""} if several else {}),
        "verdict": "",
        "lift": "number",
        "interval of the lift": "plot",
        control: "number",
        "value" if several else report.rows[0].variant: "number",
    }
    widest = _scale(report.rows)
    rows = [_row(row, report, widest, several=several) for row in report.rows]
    return grid(
        "Variants against control", columns, rows, frame="card", kind="rows forest", seen=False
    )


def _row(row: Compared, report: Report, widest: float, *, several: bool) -> Markup:
    control = next(iter(report.checks.users))
    name = [tag("code", row.metric)] + ([tag("small", "primary")] if row.primary else [])
    values = [
        UNDEFINED if number is None else figure(number) for number in (row.control, row.treatment)
    ]
    bounds = lift_bounds(row.lift_low, row.lift_high)
    return tag(
        "tr",
        tag("th", *name, scope="row"),
        *([tag("td", row.variant, kind="variant")] if several else []),
        _verdict(row, control, report.intervals.precision),
        tag("td", _lift(row.lift), data_head="lift"),
        tag("td", _forest(row, widest), tag("small", bounds), kind="plot"),
        *(
            tag("td", value, data_head=name)
            for name, value in zip((control, row.variant), values, strict=True)
        ),
    )


def _verdict(row: Compared, control: str, precision: float) -> Markup:
    """The verdict; only better, worse and a broken guardrail are coloured."""
    kind = row.verdict if row.verdict in ("better", "worse") else "open"
    parts = [tag("strong", row.text, kind=f"verdict {kind}")]
    parts += map(_smaller, _reasons(row, control, precision))
    if row.guardrail is not None:
        broken = "verdict worse" if row.guardrail_verdict == "broken" else "verdict open"
        parts.append(tag("span", guardrail_text(row), kind=broken))
    return tag("td", *parts, kind="said")


def _reasons(row: Compared, control: str, precision: float) -> Iterator[str]:
    """Why a verdict is open, and what would settle it; nothing is promised without trust."""
    if row.verdict == "do not trust":
        if row.reason:
            yield row.reason
        return
    if row.verdict in ("not enough evidence", "too few users"):
        yield open_reason(row, control).after(verdict_text(row))
    if row.days_left:
        days = max(1, math.ceil(row.days_left))
        when = "more than a year" if days > _YEAR else f"about {days:,} day{'s' * (days > 1)}"
        yield f"At this pace the lift is known to ±{percent(precision)} in {when}."
    if row.verdict == "not enough evidence" and row.detectable is not None:
        yield f"With today's users a lift of {percent(row.detectable)} is found in 8 of 10 cases."


def _scale(rows: Sequence[Compared]) -> float:
    """The lift at both ends of every plot: all lifts fit, and all bounds except far wider ones."""
    reaches = sorted(reach for row in rows if (reach := row.largest_lift) is not None)
    if not reaches:
        return 1.0
    lifts = [abs(row.lift or 0.0) for row in rows]
    largest = max(filter(math.isfinite, lifts), default=0.0)
    usual = max(_WIDEST * reaches[len(reaches) // 2], 2.0 * largest)
    # A little more, so that the widest bound has its cap: one without is cut.
    return 1.02 * max(min(reaches[-1], usual), largest, 1e-9)


def _forest(comparison: Comparison, widest: float) -> Markup:
    """A plot of 0, the lift and its bounds; a bound that is cut has no cap."""
    zero = tag("line", x1="0", x2="0", y1="-8", y2="8", kind="zero")
    drawn = [zero]
    if comparison.lift_low is not None and comparison.lift_high is not None:
        low, high = (_x(bound, widest) for bound in (comparison.lift_low, comparison.lift_high))
        drawn.append(tag("line", x1=f"{low:.1f}", x2=f"{high:.1f}", y1="0", y2="0", kind="span"))
        drawn += [
            tag("line", x1=f"{end:.1f}", x2=f"{end:.1f}", y1="-4", y2="4", kind="span")
            for end in (low, high)
            if abs(end) < _HALF
        ]
    if comparison.lift is not None and abs(comparison.lift) <= widest:
        drawn.append(tag("circle", cx=f"{_x(comparison.lift, widest):.1f}", cy="0", r="3.5"))
    words = lift_bounds(comparison.lift_low, comparison.lift_high)
    if comparison.lift is not None:
        words = f"lift {percent(comparison.lift, '+')}, {words}"
    return tag("svg", *drawn, viewBox="-104 -9 208 18", role="img", aria_label=words)


def _x(lift: float, widest: float) -> float:
    return max(-_HALF, min(_HALF, _HALF * lift / widest))


def _has_days(row: Compared) -> bool:
    seen = len(row.days) > 1 and any(day.low is not None for day in row.days)
    return seen and row.verdict != "do not trust"


def _by_day(row: Compared, report: Report) -> Markup:
    enough = row.needed
    beyond = (
        "Evidence says how strongly the days so far speak against chance: 1 is none, and above the "
        f"dashed line, at {enough:,.0f}, the difference is real."
    )
    control = next(iter(report.checks.users))
    what = f"{row.metric} of {row.variant} against {control}: evidence by day"
    label = f"{what}. Its maximum is {e_value_text(max(day.evidence for day in row.days))}."
    first, last = row.days[0].day, row.days[-1].day
    return tag(
        "figure",
        tag(
            "figcaption",
            tag("strong", what),
            tag("small", beyond),
        ),
        _chart(row.days, enough, label),
        tag("p", tag("span", f"{first:%d %b %Y}"), tag("span", f"{last:%d %b %Y}"), kind="ends"),
        tag("details", tag("summary", "As a table"), _day_table(row.days, what)),
        kind="card days",
    )


def _chart(days: Sequence[Day], enough: float, label: str) -> Markup:
    first = days[0].day.toordinal()
    length = max(days[-1].day.toordinal() - first, 1)
    points = " ".join(
        f"{_WIDTH * (day.day.toordinal() - first) / length:.1f},{_y(day.evidence):.1f}"
        for day in days
    )
    line = f"{_y(enough):.1f}"
    return tag(
        "svg",
        tag("line", x1="0", x2=f"{_WIDTH:g}", y1=line, y2=line, kind="enough"),
        tag("polyline", points=points),
        viewBox=f"0 -4 {_WIDTH:g} {_HEIGHT + 8:g}",
        preserveAspectRatio="none",
        role="img",
        aria_label=label,
    )


def _y(evidence: float) -> float:
    low, high = _DECADES
    share = (math.log10(max(evidence, 1e-300)) - low) / (high - low)
    return _HEIGHT * (1.0 - min(max(share, 0.0), 1.0))


def _has_spans(row: Compared) -> bool:
    return sum(day.low is not None for day in row.daily) > 1


def _alone(row: Compared, report: Report) -> Markup:
    """The lift of each day alone as a band, and tables of days and weeks."""
    control = next(iter(report.checks.users))
    what = f"{row.metric} of {row.variant} against {control}: lift of each day alone"
    first, last = row.daily[0].start, row.daily[-1].start
    scale = _scale_of(row.daily)
    return tag(
        "figure",
        tag(
            "figcaption",
            tag("strong", what),
            tag(
                "small",
                f"The scale runs from -{percent(scale)} to +{percent(scale)}. A lift that falls "
                "from day to day wears off; single days give no verdict.",
            ),
        ),
        _band(row.daily, scale, what),
        tag("p", tag("span", f"{first:%d %b %Y}"), tag("span", f"{last:%d %b %Y}"), kind="ends"),
        tag(
            "details",
            tag("summary", "As a table, also by week"),
            _span_table(row.weekly, f"{what.removesuffix('each day alone')}each week alone"),
            _span_table(row.daily, what),
        ),
        kind="card days alone",
    )


def _scale_of(spans: Sequence[SpanLift]) -> float:
    """The lift at the top and bottom of the chart: all lifts fit, and most bounds."""
    bounds = sorted(
        max(abs(span.low), abs(span.high))
        for span in spans
        if span.low is not None and span.high is not None
    )
    lifts = [abs(span.lift) for span in spans if span.lift is not None]
    return max(*lifts, bounds[len(bounds) // 2] * 1.5, 1e-9)


def _band(spans: Sequence[SpanLift], scale: float, label: str) -> Markup:
    """The bounds of each day as a bar, its lift as a dot, and a line at no lift."""
    first = spans[0].start.toordinal()
    length = max(spans[-1].start.toordinal() - first, 1)
    parts = [
        tag(
            "line",
            x1="0",
            x2=f"{_WIDTH:g}",
            y1=f"{_HEIGHT / 2:g}",
            y2=f"{_HEIGHT / 2:g}",
            kind="enough",
        )
    ]
    for span in spans:
        x = f"{8 + (_WIDTH - 16) * (span.start.toordinal() - first) / length:.1f}"
        if span.low is not None and span.high is not None:
            low, high = (f"{_down(bound, scale):.1f}" for bound in (span.low, span.high))
            parts.append(tag("line", x1=x, x2=x, y1=low, y2=high, kind="span"))
        if span.lift is not None:
            y = _down(span.lift, scale)
            parts.append(tag("line", x1=x, x2=x, y1=f"{y - 2:.1f}", y2=f"{y + 2:.1f}", kind="dot"))
    return tag(
        "svg",
        *parts,
        viewBox=f"0 -4 {_WIDTH:g} {_HEIGHT + 8:g}",
        preserveAspectRatio="none",
        role="img",
        aria_label=label,
    )


def _down(lift: float, scale: float) -> float:
    return _HEIGHT / 2 * (1.0 - min(max(lift / scale, -1.0), 1.0))


def _span_table(spans: Sequence[SpanLift], what: str) -> Markup:
    columns: list[TextColumn[SpanLift]] = [
        TextColumn("from", lambda span: span.start.isoformat()),
        TextColumn("lift", lambda span: _lift(span.lift), "right"),
        TextColumn("interval", lambda span: lift_bounds(span.low, span.high), "right"),
    ]
    return plain_grid(what, TextTable(columns, spans[::-1]), frame="scroll")


def _day_table(days: Sequence[Day], what: str) -> Markup:
    columns: list[TextColumn[Day]] = [
        TextColumn("day", lambda day: day.day.isoformat()),
        TextColumn("evidence", lambda day: e_value_text(day.evidence), "right"),
        TextColumn("lift", lambda day: _lift(day.lift), "right"),
        TextColumn("interval", lambda day: lift_bounds(day.low, day.high), "right"),
    ]
    return plain_grid(what, TextTable(columns, days[::-1]), frame="scroll", seen=False)


def _lift(lift: float | None) -> str:
    return UNDEFINED if lift is None else percent(lift, "+")


def _checks(report: Report) -> Markup:
    facts = [*_users(report.checks), *_weight(report.rows)]
    facts.append(("period", report.checks.period, ""))
    if report.checks.notes:
        facts.append(("note", "; ".join(report.checks.notes), ""))
    if report.checks.left_out:
        facts.append(("not compared", ", ".join(report.checks.left_out), ""))
    parts = (
        tag("div", tag("dt", name), tag("dd", text, _smaller(more))) for name, text, more in facts
    )
    return tag("dl", *parts, kind="totals checks")


def _smaller(text: str) -> Markup:
    """An explanation without a break before a percent sign; empty without a text."""
    return tag("small", text.replace(" %", "\N{NO-BREAK SPACE}%")) if text else Markup()


def _users(checks: Checks) -> Iterator[_Fact]:
    """How many users each variant has, and whether they can be compared."""
    counts = ", ".join(f"{name} {count:,.0f}" for name, count in checks.users.items())
    yield "users", counts, ""
    split = "no: planned" if checks.ratio_evidence >= ALARM else "yes:"
    yield "split as planned", f"{split} {_planned(checks)}", imbalance_text(checks)
    several = "by design" if checks.same_users else _share(checks.shared)
    yield "users in several variants", several, ""
    missing = _share(checks.anonymous)
    of_a_variant = "of the lists of one variant at most" if checks.anonymous else ""
    yield "lists without a user id", missing, of_a_variant


def _planned(checks: Checks) -> str:
    since = f" since {checks.splits[-1].since}" if len(checks.splits) > 1 else ""
    return f"{planned_text(checks.shares)}{since}"


def _share(share: float) -> str:
    return percent(share) if share else "none"


def _weight(rows: Sequence[Compared]) -> Iterator[_Fact]:
    """How much a single group of users decides; much more than the others is a warning."""
    if weight := heaviest_weight(rows):
        yield ("group of users that weighs most", *weight)
