"""Shadow rankers: an event becomes its list and one more for each ranker that was not shown.

Clock, deduplication and tallies see events; metrics count their lists.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from msgspec.structs import replace

from streameval.accumulator.formulas import EventValues
from streameval.accumulator.kinds.events import overlap_metric
from streameval.decoding.columns import Decoded
from streameval.decoding.fields import SHOWN
from streameval.engine.windows.labels import Labels
from streameval.engine.windows.views import SliceTable
from streameval.events import Id
from streameval.events.batch import select
from streameval.statistics.arrays import BoolArray, IntArray

RANKER: Final = "ranker"
"""The label of the lists of an event, beside those of the configuration."""

_Ids: TypeAlias = Sequence[Id]


class CountedLists(NamedTuple):
    """The lists of some events.

    Attributes:
        lists: one row for each list; those of an event follow each other.
        per_event: number of lists of each event.
        values: for each family, the values of its metrics of events for each list; None without
            such metrics.
    """

    lists: Decoded
    per_event: int
    values: Sequence[EventValues | None]

    def keep(self, events: BoolArray | None) -> CountedLists:
        """The lists of some events; None for all."""
        if events is None:
            return self
        rows = np.flatnonzero(np.repeat(events, self.per_event))
        values = [select(of_family, rows) for of_family in self.values]
        return self._replace(lists=self.lists.take(rows), values=values)

    def spread(self, column: IntArray, events: BoolArray | None) -> IntArray:
        """A column of all events repeated for the lists of some; None for all events."""
        of_events = column if events is None else column[events]
        return of_events if self.per_event == 1 else np.repeat(of_events, self.per_event)


def lists_by_ranker(events: Decoded, rankers: Sequence[str]) -> Decoded:
    """The list shown of each event, then that of each ranker, with the label `RANKER`.

    The list of a ranker has the user, the interactions and the other labels of its event, but no
    ranks, scores and values of the items shown.

    Example:
        >>> from streameval.events import Batch
        >>> batch = Batch(recommendations=[["a", "b"]], interactions=[["b"]])
        >>> events = Decoded(batch=batch, dimensions=None, indices=[0], rankers=[[["b", "c"]]])
        >>> lists = lists_by_ranker(events, ["challenger"])
        >>> lists.batch.recommendations, lists.dimensions
        ([['a', 'b'], ['b', 'c']], [('shown',), ('challenger',)])
    """
    if not rankers or events.rankers is None:
        return events
    recommended = [*events.batch.recommendations]
    without_rankers = replace(
        events, rankers=None, batch=replace(events.batch, recommendations=recommended)
    )
    parts = [_label(without_rankers, SHOWN)]
    for index, name in enumerate(rankers):
        others = [of_event[index] for of_event in events.rankers]
        parts.append(_label(_with_lists(without_rankers, others, recommended), name))
    order = np.arange(len(parts) * len(recommended)).reshape(len(parts), len(recommended))
    return parts[0].joined(*parts[1:]).take(order.T.ravel())


def slices_by(family: SliceTable, *names: str | None) -> dict[Labels, list[int]]:
    """Values of these labels -> the slices that have them; the value of None is "".

    Lists that were not shown count by the label `RANKER` only.
    """
    columns = [None if name is None else family.names.index(name) for name in names]
    ranker = None
    overlap = overlap_metric(family.table.plan.specs)
    if RANKER in family.names and RANKER not in names and overlap is not None:
        ranker = family.names.index(RANKER)
    slices = defaultdict[Labels, list[int]](list)
    for number, labels in family.labels.items():
        if ranker is None or labels[ranker] == SHOWN:
            key = tuple("" if column is None else labels[column] for column in columns)
            slices[key].append(number)
    return dict(slices)


def _label(events: Decoded, name: str) -> Decoded:
    dimensions: Sequence[Labels] = events.dimensions or [()] * len(events.batch)
    return replace(events, dimensions=[(*labels, name) for labels in dimensions])


def _with_lists(events: Decoded, lists: Sequence[_Ids], recommended: Sequence[_Ids]) -> Decoded:
    """The events with other lists instead of those shown."""
    batch = replace(
        events.batch,
        recommendations=lists,
        positions=None,
        scores=None,
        per_item=None,
        shown_instead=recommended,
        matches=None,
    )
    return replace(events, batch=batch)
