"""The kinds of statistics: what each keeps for a metric, and how the metric is read from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from streameval.accumulator.kinds import cells, events, hits, user_sums

if TYPE_CHECKING:
    from streameval.accumulator.kinds.spec import CountedTable, PlanLimits, StatisticSpec
    from streameval.accumulator.reading_intervals import IntervalMethod
    from streameval.catalogue.metric import Metric
    from streameval.catalogue.reading import Reading
    from streameval.statistics.arrays import IntArray


class Kind(Protocol):
    """A module of a kind."""

    def specs(self, metric: Metric, limits: PlanLimits, /) -> Iterable[StatisticSpec]:
        """The statistics that a metric of this kind reads."""
        ...

    def names(self, metric: Metric, table: CountedTable, /) -> frozenset[str]:
        """The names of these statistics; raises NotKeptError if one was not kept."""
        ...

    def read(
        self,
        metric: Metric,
        table: CountedTable,
        cells: IntArray,
        method: IntervalMethod | None = None,
        /,
    ) -> list[Reading]:
        """The readings of a metric of this kind; those over users with intervals by `method`."""
        ...


_BY_READS: Final[Mapping[str, Kind]] = {"hits": hits, "lists": hits, "event": events}


def statistic_kind(metric: Metric) -> Kind:
    """The kind of the statistics that a metric reads."""
    return user_sums if metric.is_per_user else _BY_READS.get(metric.reads, cells)
