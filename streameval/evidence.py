"""The statistics kept for one slice, updated, merged and saved together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from streameval.errors import UnlikeStateError
from streameval.events import Batch
from streameval.metric import Metric
from streameval.plan import Plan, hits_options
from streameval.statistics.distributions import Distribution
from streameval.statistics.exposures import Exposures
from streameval.statistics.hits import Hits, HitsOptions, Listener
from streameval.statistics.lists import GradedLists


class Evidence:
    """One slice's statistics, as planned.

    Attributes:
        hits: by their options.
        exposures: None where no metric reads them.
        graded: per metric, its values on lists with gains.
        statistics: all that count events, in the order in which they are updated.
    """

    __slots__ = ("exposures", "graded", "hits", "plan", "statistics")

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.graded = {metric.text: Distribution() for metric in plan.graded}
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
        for text, distribution in other.graded.items():
            self.graded[text].merge(distribution)
        if self.exposures is not None and other.exposures is not None:
            self.exposures.merge(other.exposures)

    def state_dict(self) -> dict[str, Any]:
        """Plain integers and strings; equal content gives equal state."""
        return {
            "hits": [hits.state_dict() for hits in self.hits.values()],
            "exposures": None if self.exposures is None else self.exposures.state_dict(),
            "graded": {text: kept.state_dict() for text, kept in self.graded.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take the place of the content by what `state_dict` gave.

        Raises:
            UnlikeStateError: it keeps other statistics.
        """
        self._check_alike(state)
        for hits, saved in zip(self.hits.values(), state["hits"], strict=True):
            hits.load_state_dict(saved)
        for text, distribution in self.graded.items():
            distribution.load_state_dict(state["graded"][text])
        if self.exposures is not None:
            self.exposures.load_state_dict(state["exposures"])

    def _check_alike(self, state: Mapping[str, Any]) -> None:
        here = (len(self.hits), sorted(self.graded), self.exposures is not None)
        there = (len(state["hits"]), sorted(state["graded"]), state["exposures"] is not None)
        if here != there:
            raise UnlikeStateError("statistics", here, there)

    def _listener(self, options: HitsOptions) -> Listener | None:
        followers = [
            metric
            for metric in self.plan.graded
            if hits_options(metric, self.plan.depth) == options
        ]
        return (lambda lists: self._follow(followers, lists)) if followers else None

    def _follow(self, metrics: Sequence[Metric], lists: GradedLists) -> None:
        for metric in metrics:
            per_list = metric.definition.graded
            if per_list is not None:
                values = per_list(lists, metric.k, **metric.values_for(per_list))
                self.graded[metric.text].add(values, lists.count)
