"""The report of an experiment: its comparisons with their table, and the checks of its users."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from streameval.analyses.experiments.checks import Checks
from streameval.analyses.experiments.verdicts import Compared, explain_row, needed_text
from streameval.exporters.view import figure, lift_bounds
from streameval.inference.table import TextColumn, TextTable
from streameval.inference.words import percent
from streameval.statistics.intervals import Intervals


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
        checks = msgspec.structs.replace(self.checks, trouble=(*self.checks.trouble, trouble))
        rows, segments = (
            [explain_row(row, checks.trouble, self.control) for row in rows]
            for rows in (self.rows, self.segments)
        )
        return self._replace(checks=checks, rows=rows, segments=segments)


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
