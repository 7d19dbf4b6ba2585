"""Gaps: who is served worse?"""

from __future__ import annotations

from typing import Final

from streameval.analyses.gaps.families import gap_gauges
from streameval.analyses.gaps.page import section
from streameval.analyses.gaps.reader import GapsReport, gap_reader
from streameval.analyses.gaps.report import GapSeries
from streameval.analyses.gaps.settings import GapOptions, gap_problems
from streameval.engine.analysis import Analysis


def _answer(report: GapsReport | None) -> GapsReport:
    return report or ()


GAPS: Final = Analysis(
    name="gaps",
    title="Gaps",
    table="gap",
    settings=list[GapOptions],
    describes="labels or segments whose worst and best value are compared, one table each; needs "
    "`intervals`.",
    check=gap_problems,
    reader=gap_reader,
    gauges=gap_gauges,
    section=section,
    answer=_answer,
    answers=list[GapSeries],
    about="one for each configured gap, metric, window and combination of the other labels.",
)
