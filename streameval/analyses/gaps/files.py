"""The gaps between the values of a field, in files or saved states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from streameval.analyses.gaps.analysis import GAPS
from streameval.analyses.gaps.reader import gaps_in
from streameval.analyses.gaps.report import Gap
from streameval.decoding.values import MISSING_LABEL
from streameval.evaluation.counted import FileCounts, count
from streameval.evaluation.request import Request
from streameval.evaluation.result import NoEventsError, Surroundings
from streameval.evaluation.setup import setup_of
from streameval.evaluation.stores import (
    StateCounts,
    is_state,
    method_of,
    restore_states,
    without_sets,
)
from streameval.events.errors import UsageError, suggestion
from streameval.statistics.intervals import Intervals, Method


class GapsOptions(NamedTuple):
    """What to compare, and how.

    Attributes:
        by: field whose values are compared.
        method: None: the one that survives the looks.
        intervals: given fields of Intervals; they override the configuration.
    """

    by: str
    method: Method | None
    intervals: Mapping[str, Any]


class GapsResult(NamedTuple):
    """The gaps of each metric.

    Attributes:
        is_doubtful: whether most records with interactions are invalid.
    """

    gaps: Sequence[Gap]
    is_doubtful: bool = False


def find_gaps(request: Request, options: GapsOptions, around: Surroundings) -> GapsResult:
    """Count the values of a field and compare them with each other.

    Raises:
        UsageError: the request names what is not there.
        NoEventsError: there is no valid event.
    """
    by, method = options.by, method_of(request, options.method, around)
    counted: StateCounts | FileCounts
    chosen: Sequence[str] = []
    if is_state(request.files):
        counted, chosen = restore_states(request, around), request.options.metrics
        names = counted.config.series_dimensions()
        if by not in names:
            choices = ", ".join(names) or "none"
            problem = f"--by {by}: neither a label nor a segment of the state: {choices}."
            raise UsageError(f"{problem}{suggestion(by, names)}")
    else:
        # The field is the only label.
        alone = without_sets(request, around).with_options(by=[by], intervals=Intervals())
        counted = count(setup_of(alone, GAPS), around)
    intervals = msgspec.structs.replace(counted.intervals, **options.intervals)
    gaps = gaps_in(counted.families, by, intervals, method, chosen)
    _check(gaps, by, ", ".join(request.files))
    return GapsResult(gaps, counted.is_doubtful)


def _check(gaps: Sequence[Gap], by: str, files: str) -> None:
    """Raise an error if there is nothing to compare."""
    if not gaps:
        raise UsageError("no metric that can be compared; `streameval metrics` lists them all.")
    values = {value.name for gap in gaps for value in gap.values}
    if not values:
        raise NoEventsError(f"no valid event in {files}.")
    if values == {MISSING_LABEL}:
        raise UsageError(
            f"no event in {files} has the field {by!r}; name it with --by FIELD or "
            f"--column {by}=FIELD."
        )
