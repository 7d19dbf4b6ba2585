"""Changes: did it get worse, and since when?"""

from __future__ import annotations

from typing import Final

from streameval.analyses.changes.answer import ChangesAnswer, changes_answer
from streameval.analyses.changes.checks import change_problems
from streameval.analyses.changes.families import change_gauges
from streameval.analyses.changes.page import section
from streameval.analyses.changes.reader import change_reader
from streameval.analyses.changes.settings import ChangeSettings
from streameval.engine.analysis import Analysis

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
    answer=changes_answer,
    answers=ChangesAnswer,
    about="Did it get worse, and since when? The watched series.",
    is_alone=True,
)
