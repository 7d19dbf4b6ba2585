"""Experiments: is treatment better, is it real, and how long does it take?"""

from __future__ import annotations

from typing import Final

from streameval.analyses.experiments.families import comparison_gauges
from streameval.analyses.experiments.page import section
from streameval.analyses.experiments.reader import experiment_reader
from streameval.analyses.experiments.report import Comparisons, Report
from streameval.analyses.experiments.settings import (
    Experiment,
    experiment_line,
    experiment_problems,
    users_kept,
)
from streameval.engine.analysis import Analysis


def _answer(report: Report | None) -> Comparisons | None:
    if report is None:
        return None
    return Comparisons(checks=report.checks, comparisons=report.rows)


def _baseline(report: Report) -> tuple[str, str]:
    return report.label, report.control


EXPERIMENTS: Final = Analysis(
    name="experiment",
    title="Experiment",
    table="experiment",
    settings=Experiment,
    describes="variants compared with a control; needs `intervals`.",
    check=experiment_problems,
    reader=experiment_reader,
    gauges=comparison_gauges,
    section=section,
    answer=_answer,
    answers=Comparisons | None,
    about="the configured experiment; None without one.",
    users=users_kept,
    line=experiment_line,
    baseline=_baseline,
)
