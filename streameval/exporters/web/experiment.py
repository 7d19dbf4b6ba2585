"""The experiment on the page: lifts with their bounds, verdicts, and whether to trust them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from streameval.accumulator.comparison import Comparison, evidence_text, percent, verdict_text
from streameval.accumulator.experiment import ALARM, Checks, Compared, Report
from streameval.exporters.view import UNDEFINED, figure
from streameval.exporters.web.markup import Markup, tag

_HALF: Final = 100.0
"""Half of a forest plot's width, in its own units."""

_YEAR: Final = 365

_WIDEST: Final = 4.0
"""Bounds further out than so many times the median are cut, or one metric would hide the others."""


def section(report: Report) -> Markup:
    """A table of all comparisons, and the checks."""
    if not report.rows:
        return tag("p", "No list of the experiment has been counted yet.", kind="quiet")
    kind, confidence = report.rows[0].comparison.kind, report.rows[0].comparison.confidence
    promise = (
        f"{confidence:.0%} intervals hold however often you look."
        if kind == "anytime"
        else f"{confidence:.0%} intervals hold for one planned look."
    )
    return tag(
        "",
        tag("p", promise, kind="quiet"),
        _alarms(report.checks),
        _table(report),
        _checks(report.checks),
    )


def _alarms(checks: Checks) -> Markup:
    return tag(
        "",
        *(
            tag("p", f"Do not trust these numbers: {each}.", kind="alarm")
            for each in checks.trouble
        ),
    )


def _table(report: Report) -> Markup:
    control = next(iter(report.checks.users))
    several = len({row.variant for row in report.rows}) > 1
    treatment = "treatment" if several else report.rows[0].variant
    columns = {
        "metric": "",
        **({"variant": ""} if several else {}),
        "verdict": "",
        "lift": "number",
        "interval of the lift": "plot",
        control: "number",
        treatment: "number",
        "evidence": "number",
    }
    heads = [tag("th", name, scope="col", kind=kind) for name, kind in columns.items()]
    widest = _scale(report.rows)
    rows = [_row(row, widest, several=several) for row in report.rows]
    what = "Variants against control"
    body = tag("thead", tag("tr", *heads)), tag("tbody", *rows)
    table = tag("table", tag("caption", what, kind="unseen"), *body, kind="rows forest")
    return tag("div", table, kind="card scroll", tabindex="0", role="region", aria_label=what)


def _row(row: Compared, widest: float, *, several: bool) -> Markup:
    found = row.comparison
    name = [tag("code", row.metric)] + ([tag("small", "primary")] if row.primary else [])
    values = [UNDEFINED if each is None else figure(each) for each in (row.control, row.treatment)]
    return tag(
        "tr",
        tag("th", *name, scope="row"),
        *([tag("td", row.variant)] if several else []),
        _verdict(row),
        tag("td", UNDEFINED if found.lift is None else percent(found.lift, "+")),
        tag("td", _forest(found, widest), tag("small", _bounds(found)), kind="plot"),
        *(tag("td", value) for value in values),
        tag("td", evidence_text(found)),
    )


def _verdict(row: Compared) -> Markup:
    """Colour only where it holds: better or worse, and a guardrail that is broken."""
    found = row.comparison
    kind = found.verdict if found.verdict in ("better", "worse") else "open"
    parts = [tag("strong", verdict_text(found), kind=f"verdict {kind}"), tag("small", row.sentence)]
    if row.days_left:
        days = max(1, math.ceil(row.days_left))
        when = "more than a year" if days > _YEAR else f"about {days:,} day{'s' * (days > 1)}"
        parts.append(tag("small", f"As precise as asked for in {when}."))
    if row.guardrail is not None:
        rail = row.guardrail
        broken = "verdict worse" if rail.verdict == "broken" else "verdict open"
        text = f"guardrail {percent(rail.limit, '+')}: {rail.verdict}"
        parts.append(tag("span", text, kind=broken))
    return tag("td", *parts, kind="said")


def _bounds(found: Comparison) -> str:
    if found.lift_low is None or found.lift_high is None:
        return "no interval"
    return f"{percent(found.lift_low, '+')} to {percent(found.lift_high, '+')}"


def _scale(rows: Sequence[Compared]) -> float:
    """The lift at the ends of all plots, which are alike."""
    bounds = (row.comparison.largest_lift for row in rows)
    reaches = sorted(each for each in bounds if each is not None)
    if not reaches:
        return 1.0
    return min(reaches[-1], _WIDEST * reaches[len(reaches) // 2]) or 1.0


def _forest(found: Comparison, widest: float) -> Markup:
    """Where 0 and the lift lie, and the bounds; an end that is cut has no cap."""
    zero = tag("line", x1="0", x2="0", y1="-8", y2="8", kind="zero")
    drawn = [zero]
    if found.lift_low is not None and found.lift_high is not None:
        low, high = (_at(each, widest) for each in (found.lift_low, found.lift_high))
        drawn.append(tag("line", x1=f"{low:.1f}", x2=f"{high:.1f}", y1="0", y2="0", kind="span"))
        drawn += [
            tag("line", x1=f"{end:.1f}", x2=f"{end:.1f}", y1="-4", y2="4", kind="span")
            for end in (low, high)
            if abs(end) < _HALF
        ]
    if found.lift is not None and abs(found.lift) <= widest:
        drawn.append(tag("circle", cx=f"{_at(found.lift, widest):.1f}", cy="0", r="3.5"))
    words = (
        f"lift {percent(found.lift, '+')}, {_bounds(found)}"
        if found.lift is not None
        else _bounds(found)
    )
    return tag("svg", *drawn, viewBox="-104 -9 208 18", role="img", aria_label=words)


def _at(lift: float, widest: float) -> float:
    return max(-_HALF, min(_HALF, _HALF * lift / widest))


def _checks(checks: Checks) -> Markup:
    users = " : ".join(f"{count:,.0f}" for count in checks.users.values())
    planned = " : ".join(f"{share:.1%}" for share in checks.shares.values())
    facts = {
        f"users ({' : '.join(checks.users)})": f"{users}, planned {planned}",
        "split as planned": "no" if checks.ratio_evidence >= ALARM else "yes",
        "users in several variants": "by design" if checks.same_users else percent(checks.shared),
        "lists without a user id": f"{checks.anonymous:.1%} at most",
    }
    if checks.left_out:
        facts["not compared"] = ", ".join(checks.left_out)
    parts = [tag("div", tag("dt", name), tag("dd", text)) for name, text in facts.items()]
    return tag("dl", *parts, kind="totals checks")
