"""Lists that were not shown: users reacted to others, so their metrics are biased to those."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from streameval.accumulator.overlap import bias_reason
from streameval.accumulator.table import Table
from streameval.catalogue import parse
from streameval.catalogue.metric import Metric
from streameval.events import Batch, Event
from streameval.events.errors import InvalidEventError
from streameval.statistics.arrays import IntArray
from streameval.statistics.distributions import Distribution, Values


def tells_unshown(metric: Metric) -> bool:
    """Whether a metric has a value for lists that were not shown only."""
    return metric.definition is parse("overlap").definition


def overlap_kept(table: Table) -> Metric | None:
    """The metric that tells which lists were shown, of the deepest cut-off; None if none does."""
    kept = list(filter(tells_unshown, table.plan.events))
    return max(kept, key=lambda metric: metric.k or math.inf, default=None)


def refuse_unshown(given: Batch | Event, table: Table) -> None:
    """Refuse lists that were not shown where nothing would tell them from others.

    Raises:
        InvalidEventError: there are some, and the metric `overlap` is not kept.
    """
    if given.shown_instead is not None and overlap_kept(table) is None:
        detail = "shown_instead needs the metric 'overlap', which tells how far users saw the list"
        raise InvalidEventError("wrong_type", f"{detail}; count it beside the others")


def biases(table: Table, cells: IntArray) -> list[str | None]:
    """For each of these cells, what is biased about it, in a sentence; None if nothing is."""
    shares = [_share([overlap]) for overlap in _overlaps(table, cells)] or [None] * cells.size
    return [None if share is None else bias_reason(share) for share in shares]


def overlap_together(table: Table, cells: IntArray) -> float | None:
    """The overlap of all of these cells with the lists shown; None if all were shown."""
    return _share(_overlaps(table, cells))


def bias_together(table: Table, cells: IntArray) -> str | None:
    """What is biased about all of these cells together, in a sentence; None if nothing is."""
    share = overlap_together(table, cells)
    return None if share is None else bias_reason(share)


def _overlaps(table: Table, cells: IntArray) -> Sequence[Distribution]:
    metric = overlap_kept(table)
    if metric is None:
        return ()
    return cast("Values", table.statistics[f"events:{metric.per_list}"]).view(cells)


def _share(overlaps: Sequence[Distribution]) -> float | None:
    count = sum(overlap.count for overlap in overlaps)
    return math.fsum(overlap.total for overlap in overlaps) / count if count else None
