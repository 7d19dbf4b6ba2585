"""Gaps on the page: the values of a label with their bands, the possibly worst ones marked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from streameval.analyses.gaps.report import GapSeries, GapValue
from streameval.analyses.gaps.words import gap_table, gap_text
from streameval.engine.snapshot import LIFETIME
from streameval.exporters.page.templates import render
from streameval.inference.table import TextTable


def section(gaps: Iterable[GapSeries]) -> str:
    """A table for each gap over the lifetime."""
    return render("analyses/gaps/section.html", gaps=list(_lifetime(gaps)))


def _lifetime(gaps: Iterable[GapSeries]) -> Iterator[tuple[str, str, TextTable[GapValue]]]:
    """Name, sentence and table of each gap."""
    for series in gaps:
        if series.window == LIFETIME:
            where = "".join(f", {name}={value}" for name, value in series.labels.items())
            name = f"{series.gap.metric} by {series.by}{where}"
            yield name, gap_text(series.gap), gap_table(series.gap, series.by, f"Gap of {name}")
