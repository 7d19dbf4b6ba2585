"""A comparison as a table for a person; as JSON and CSV with every digit."""

from __future__ import annotations

import codecs
import csv
import io
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
from rich.table import Table
from rich.text import Text

from streameval.accumulator.checks import ALARM
from streameval.accumulator.comparison import (
    Comparison,
    Method,
    evidence_text,
    percent,
    verdict_text,
)
from streameval.accumulator.experiment import Compared, Experiment, Report
from streameval.cli.ending import output, tell
from streameval.cli.screen import printed
from streameval.exporters.view import figure, forest_scale
from streameval.statistics.intervals import Intervals

_WIDTH = 25
_MARKS = "━●·◂▸"
_COLOURS: Final = {"better": "green", "worse": "red"}
_HELD: Final[Mapping[Method, str]] = {
    "fixed": "for one look that was planned",
    "anytime": "however often you look",
}


class Written(NamedTuple):
    """What is written."""

    report: Report
    experiment: Experiment
    intervals: Intervals
    method: Method


def write_report(found: Written, written_as: str) -> None:
    """Write a comparison on standard output."""
    with output():
        sys.stdout.write(FORMATS[written_as](found))


def as_json(found: Written) -> str:
    """An object: the experiment, its checks, and a list of comparisons; null where unknown."""
    checks, rows = found.report
    whole = {
        "experiment": msgspec.to_builtins(found.experiment),
        "method": found.method,
        "confidence": found.intervals.confidence,
        "precision": found.intervals.precision,
        "checks": msgspec.to_builtins(checks),
        "comparisons": [row.flat() for row in rows],
    }
    escaped = codecs.lookup(sys.stdout.encoding).name != "utf-8"
    return json.dumps(whole, indent=1, ensure_ascii=escaped) + "\n"


def as_csv(found: Written) -> str:
    """One line a comparison; failed checks go to standard error."""
    for trouble in found.report.checks.trouble:
        tell(f"do not trust this: {trouble}.")
    text = io.StringIO()
    rows = [row.flat() for row in found.report.rows]
    for row in rows:
        del row["days"]  # a list has no cell; JSON has it
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
    return text.getvalue()


def as_table(found: Written) -> str:
    """Lifts with their intervals, the checks, and why each verdict is what it is."""
    rows = found.report.rows
    several = len({row.variant for row in rows}) > 1
    scale = forest_scale(rows)
    grid = Table(header_style="bold")
    for name in ("metric", *(["variant"] if several else [])):
        grid.add_column(name, overflow="fold")
    for name in ("control", "variant" if several else rows[0].variant, "lift"):
        grid.add_column(Text("value" if name == "variant" else name), justify="right")
    grid.add_column("interval of the lift", no_wrap=True)
    grid.add_column("p-value" if found.method == "fixed" else "evidence", justify="right")
    grid.add_column("verdict")
    for row in rows:
        lift = row.comparison.lift
        grid.add_row(
            Text(f"{row.metric} *" if row.primary else row.metric),
            *([Text(row.variant)] if several else []),
            *(Text("" if each is None else figure(each)) for each in (row.control, row.treatment)),
            "" if lift is None else percent(lift, "+"),
            Text(forest(row.comparison, scale, _marks())),
            evidence_text(row.comparison),
            Text(verdict_text(row.comparison), _COLOURS.get(row.comparison.verdict, "")),
        )
    lines = "".join(f"{line}\n" for line in (*_checks(found), *_guardrails(rows), *_reasons(rows)))
    return f"{printed(grid)}{lines}"


FORMATS: Final[Mapping[str, Callable[[Written], str]]] = {
    "table": as_table,
    "json": as_json,
    "csv": as_csv,
}


def forest(found: Comparison, scale: float, marks: str = _MARKS) -> str:
    """The interval of a lift as a line, with no lift in the middle.

    `scale`: lift at the ends. `marks`: line, lift, no lift, and a continuation beyond the left and
    right end.

    Example:
        >>> known = {"kind": "fixed", "confidence": 0.95}
        >>> forest(Comparison(lift=0.2, lift_low=0.08, lift_high=0.3, **known), 0.4)
        '            · ━━━━●━━━'
    """
    line, dot, zero, left, right = tuple(marks)
    if found.lift is None or found.lift_low is None or found.lift_high is None:
        return ""
    low, high = max(found.lift_low, -scale), min(found.lift_high, scale)
    cells = [" "] * _WIDTH
    cells[_place(0.0, scale)] = zero
    start, stop = _place(low, scale), _place(high, scale)
    cells[start : stop + 1] = line * (stop + 1 - start)
    cells[_place(min(max(found.lift, low), high), scale)] = dot
    if found.lift_low < low:
        cells[start] = left
    if found.lift_high > high:
        cells[stop] = right
    return "".join(cells).rstrip()


def _place(lift: float, scale: float) -> int:
    return round((lift + scale) / (2 * scale) * (_WIDTH - 1))


def _marks() -> str:
    try:
        _MARKS.encode(sys.stdout.encoding)
    except UnicodeEncodeError:
        return "-o.<>"
    return _MARKS


def _checks(found: Written) -> Iterator[str]:
    checks, rows = found.report
    look = _HELD[found.method]
    yield f"Intervals of {found.intervals.confidence:.0%} hold {look}."
    if any(row.primary for row in rows):
        among = next(row.among for row in rows if row.primary)
        yield f"* decides; the error is shared by {among}."
    users = ", ".join(f"{name} {count:,.0f}" for name, count in checks.users.items())
    planned = " : ".join(f"{share:.0%}" for share in checks.shares.values())
    split = "NOT as planned" if checks.ratio_evidence >= ALARM else "as planned"
    split = "the same in several variants" if checks.same_users else f"planned {planned}, {split}"
    heaviest = max((row.comparison.heaviest for row in rows), default=0.0)
    yield (
        f"Checks: users {users}: {split}; in several variants {percent(checks.shared)}; lists "
        f"without a user id {percent(checks.anonymous)}; heaviest group {percent(heaviest)} of a "
        "variance."
    )
    if checks.left_out:
        yield f"Left out, not among the planned variants: {', '.join(checks.left_out)}."


def _guardrails(rows: Sequence[Compared]) -> Iterator[str]:
    for row in rows:
        if row.guardrail is not None:
            limit = percent(row.guardrail.limit, "+")
            yield f"Guardrail {row.metric} {limit} of {row.variant}: {row.guardrail.verdict}."


def _reasons(rows: Sequence[Compared]) -> Iterator[str]:
    yield from (f"{row.metric}: {row.sentence}" for row in rows)


def _cell(value: object) -> object:
    return "" if value is None else json.dumps(value) if isinstance(value, bool | float) else value
