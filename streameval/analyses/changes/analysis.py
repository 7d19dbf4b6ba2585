"""Changes: did it get worse, and since when?"""

from __future__ import annotations

from typing import Final

from streameval.analyses.changes.families import change_gauges
from streameval.analyses.changes.page import section
from streameval.analyses.changes.reader import change_reader
from streameval.analyses.changes.report import ChangesReport
from streameval.analyses.changes.settings import ChangeSettings, change_problems
from streameval.analyses.changes.words import told
from streameval.engine.analysis import Analysis


def _answer(report: ChangesReport | None) -> ChangesReport:
    return told(report or ChangesReport())


CHANGES: Final = Analysis(
    name="changes",
    title="Changes",
    table="changes",
    settings=ChangeSettings,
    describes="series watched for changes; needs `intervals` and event time.",
    check=change_problems,
    reader=change_reader,
    gauges=change_gauges,
    section=section,
    answer=_answer,
    answers=ChangesReport,
    about="Did it get worse, and since when? The watched series.",
    is_alone=True,
)
