"""The answer of the API about changes; its docstrings are the descriptions in OpenAPI."""

from __future__ import annotations

from datetime import date

import msgspec

from streameval.analyses.changes.report import Change, ChangesReport
from streameval.analyses.changes.words import sentence
from streameval.inference.days import date_of


class ChangeAnswer(Change, frozen=True, kw_only=True):
    """The verdict on one metric of one slice at the end of a day.

    Attributes:
        text: what happened, in a sentence or two.
    """

    text: str


class ChangesAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The series that are watched for changes, at the end of the last closed day.

    Attributes:
        until: the day (UTC); None before the first look, and without [changes].
        changes: one for each metric and slice, the total first; empty likewise.
    """

    until: date | None
    changes: list[ChangeAnswer]


def changes_answer(report: ChangesReport | None) -> ChangesAnswer:
    """The verdict on every watched series, with its last days."""
    if report is None:
        return ChangesAnswer(until=None, changes=[])
    rows = [
        ChangeAnswer(**msgspec.structs.asdict(change), text=sentence(change))
        for change in report.changes
    ]
    return ChangesAnswer(until=date_of(report.until), changes=rows)
