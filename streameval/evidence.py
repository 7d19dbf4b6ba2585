"""The statistics kept for one slice, updated, merged and saved together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from streameval.errors import UnlikeStateError
from streameval.events import Batch
from streameval.metric import Metric
from streameval.plan import Plan, hits_options
from streameval.population import counting
from streameval.statistics.arrays import FloatArray
from streameval.statistics.distributions import Distribution
from streameval.statistics.exposures import Exposures
from streameval.statistics.hits import Hits, Listener
from streameval.statistics.lists import GradedLists, Lists
from streameval.statistics.profiles import HitsOptions


class Evidence:
    """One slice's statistics, as planned.

    Attributes:
        hits: by their options.
        exposures: None where no metric reads them.
        graded: by metric, its values on lists with gains.
        values: by `Metric.per_list`, its values on all lists.
        statistics: all that count events, in the order in which they are updated.
    """

    __slots__ = ("exposures", "graded", "hits", "plan", "statistics", "values")

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.graded = {metric.text: Distribution() for metric in plan.graded}
        self.values = {metric.per_list: Distribution() for metric in plan.values}
        self.hits = {options: Hits(options, self._listener(options)) for options in plan.hits}
        self.exposures = Exposures(plan.exposures) if plan.exposures is not None else None
        self.statistics: list[Hits | Exposures] = [*self.hits.values()]
        if self.exposures is not None:
            self.statistics.append(self.exposures)

    def update_many(self, batch: Batch) -> None:
        """Count many lists in every statistic."""
        for statistic in self.statistics:
            statistic.update_many(batch)

    def merge(self, other: Evidence) -> None:
        """Add what another one counted.

        Raises:
            UnlikeStateError: it keeps other statistics.
        """
        if other.plan != self.plan:
            raise UnlikeStateError("statistics", self.plan, other.plan)
        for options, hits in other.hits.items():
            self.hits[options].merge(hits)
        for mine, theirs in ((self.graded, other.graded), (self.values, other.values)):
            for text, distribution in theirs.items():
                mine[text].merge(distribution)
        if self.exposures is not None and other.exposures is not None:
            self.exposures.merge(other.exposures)

    def state_dict(self) -> dict[str, Any]:
        """Plain integers and strings; equal content gives equal state."""
        return {
            "hits": [hits.state_dict() for hits in self.hits.values()],
            "exposures": None if self.exposures is None else self.exposures.state_dict(),
            "graded": {text: kept.state_dict() for text, kept in self.graded.items()},
            "values": {text: kept.state_dict() for text, kept in self.values.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take the place of the content by what `state_dict` gave.

        Raises:
            UnlikeStateError: it keeps other statistics.
        """
        self._check_alike(state)
        for hits, saved in zip(self.hits.values(), state["hits"], strict=True):
            hits.load_state_dict(saved)
        for kind, kept in (("graded", self.graded), ("values", self.values)):
            for text, distribution in kept.items():
                distribution.load_state_dict(state[kind][text])
        if self.exposures is not None:
            self.exposures.load_state_dict(state["exposures"])

    def _check_alike(self, state: Mapping[str, Any]) -> None:
        here = (len(self.hits), [*self.graded], [*self.values], self.exposures is not None)
        kept = state["exposures"] is not None
        there = (len(state["hits"]), [*state["graded"]], [*state["values"]], kept)
        if here != there:
            raise UnlikeStateError("statistics", here, there)

    def _listener(self, options: HitsOptions) -> Listener | None:
        def reading(metrics: Sequence[Metric]) -> list[Metric]:
            return [m for m in metrics if hits_options(m, self.plan.depth) == options]

        graded, values = reading(self.plan.graded), reading(self.plan.values)
        if not graded and not values:
            return None
        return lambda lists: self._follow(graded, values, lists)

    def _follow(self, graded: Sequence[Metric], values: Sequence[Metric], lists: Lists) -> None:
        if isinstance(lists, GradedLists):
            for metric in graded:
                self.graded[metric.text].add(_values(metric, lists), counting(metric, lists))
        for metric in values:
            self.values[metric.per_list].add(_values(metric, lists), counting(metric, lists))


def _values(metric: Metric, lists: Lists) -> FloatArray:
    of_list = metric.definition.of_list
    found: FloatArray = of_list(lists, metric.k, **metric.values_for(of_list))
    return found
