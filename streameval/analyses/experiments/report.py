"""The report of an experiment: its comparisons, and the checks of its users."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from streameval.analyses.experiments.checks import Checks
from streameval.analyses.experiments.verdicts import Compared, explain_row
from streameval.statistics.intervals import Intervals


class Report(NamedTuple):
    """The current results of an experiment.

    Attributes:
        segments: comparisons of each segment by itself, which share the error among themselves.
        intervals: settings; the share `confidence` of verdicts and bounds is right, however many
            there are.
    """

    checks: Checks
    rows: list[Compared]
    intervals: Intervals
    segments: Sequence[Compared] = ()

    def untrusted(self, trouble: str) -> Report:
        """The report with all verdicts withdrawn, for one more reason."""
        checks = msgspec.structs.replace(self.checks, trouble=(*self.checks.trouble, trouble))
        control = next(iter(checks.users))
        rows = [explain_row(row, checks.trouble, control) for row in self.rows]
        segments = [explain_row(row, checks.trouble, control) for row in self.segments]
        return self._replace(checks=checks, rows=rows, segments=segments)
