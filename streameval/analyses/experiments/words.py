"""Comparisons as a table for people."""

from __future__ import annotations

from collections.abc import Sequence

from streameval.analyses.experiments.verdicts import Compared, needed_text
from streameval.exporters.view import figure, lift_bounds
from streameval.inference.table import TextColumn, TextTable
from streameval.inference.words import percent


def comparison_table(rows: Sequence[Compared]) -> TextTable[Compared]:
    """A line for each comparison; the variant has a column only if there are several."""
    first, several = rows[0], len({row.variant for row in rows}) > 1
    divided = any(row.segment is not None for row in rows)
    evidence = "p-value" if first.kind == "fixed" else "evidence"
    segment: TextColumn[Compared] = TextColumn("segment", lambda row: row.segment or "")
    variant: TextColumn[Compared] = TextColumn("variant", lambda row: row.variant)
    columns: list[TextColumn[Compared]] = [
        TextColumn("metric", lambda row: f"{row.metric}{' *' * row.primary}"),
        *[segment][:divided],
        *[variant][:several],
        TextColumn("control", lambda row: _mean(row.control), "right"),
        TextColumn(
            "value" if several else first.variant, lambda row: _mean(row.treatment), "right"
        ),
        TextColumn("lift", lambda row: "" if row.lift is None else percent(row.lift, "+"), "right"),
        TextColumn(
            "interval of the lift", lambda row: lift_bounds(row.lift_low, row.lift_high), "right"
        ),
        TextColumn(f"{evidence}, needed", needed_text, "right"),
        TextColumn("verdict", lambda row: row.text, tone=lambda row: row.verdict),
    ]
    return TextTable(columns, rows)


def _mean(value: float | None) -> str:
    return "" if value is None else figure(value)
