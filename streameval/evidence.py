"""The statistics kept for one slice, updated, merged and saved together."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, Self, TypeAlias

import msgspec

from streameval.columns import Coded
from streameval.context import Context
from streameval.errors import UnlikeStateError
from streameval.events import Batch
from streameval.formulas import formula, values_of
from streameval.metric import Metric
from streameval.plan import Plan, hits_options
from streameval.population import counting
from streameval.statistics.distributions import Distribution
from streameval.statistics.exposures import Exposed, Exposures, ExposuresOptions
from streameval.statistics.hits import Hits, Listener
from streameval.statistics.lists import GradedLists, Lists
from streameval.statistics.pairings import Pairings, PairingsOptions
from streameval.statistics.profiles import HitsOptions
from streameval.statistics.ranksums import RankSums, RankSumsOptions
from streameval.statistics.scores import Scores, ScoresOptions
from streameval.statistics.values import Values

_Kept: TypeAlias = tuple[Metric, Distribution]


class Statistic(Protocol):
    """What every statistic of events can do."""

    def update_many(self, batch: Batch) -> None:
        """Count many events."""

    def merge(self, other: Self) -> None:
        """Add what another one counted."""

    def state_dict(self) -> dict[str, Any]:
        """Plain integers and strings; equal content gives equal state."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take the place of the content by what `state_dict` gave."""

    def copy(self) -> Self:
        """An independent one with the same content."""

    def dump(self) -> Iterator[bytes]:
        """The content as msgpack, in pieces; equal content gives equal bytes."""

    def adopt(self, saved: msgspec.Raw) -> None:
        """Take the place of the content by what `dump` gave."""


_KINDS: Mapping[type, Callable[[Any], Any]] = {
    ExposuresOptions: Exposures,
    PairingsOptions: Pairings,
    ScoresOptions: Scores,
    RankSumsOptions: RankSums,
}


def _of_lists(options: Hashable) -> bool:
    if isinstance(options, HitsOptions):
        return not options.type
    return isinstance(options, ExposuresOptions) and options.of == "items"


class Evidence:
    """One slice's statistics, as planned.

    Attributes:
        plan: which statistics there are.
        statistics: all that count events, by their options, in the order of their updates.
        events: values of the formulas that need whole events.
        graded: by metric, its values on lists with gains.
        values: by `Metric.per_list`, its values on all lists.
        by_lists: whether recommendations, interactions and positions are all that is read.
    """

    __slots__ = ("by_lists", "events", "graded", "plan", "statistics", "values")

    def __init__(self, plan: Plan, context: Context) -> None:
        self.plan = plan
        self.graded = {metric.text: Distribution() for metric in plan.graded}
        self.values = {metric.per_list: Distribution() for metric in plan.values}
        self.events = Values({m.per_list: formula(m, context) for m in plan.events})
        self.statistics: dict[Hashable, Any] = {
            options: self._made(options) for options in plan.needs
        }
        self.by_lists = not plan.events and all(map(_of_lists, plan.needs))

    def exposures(self, k: int | None, of: Exposed = "items") -> Exposures | None:
        """The statistic of what was shown up to rank k (None: anywhere); None without one."""
        shown = (each for each in self.statistics.values() if isinstance(each, Exposures))
        return next((each for each in shown if each.covers(k) and each.options.of == of), None)

    @property
    def without_scores(self) -> bool:
        """Whether scores are needed, and no event had any."""
        kinds = (Scores, RankSums)
        needing = [each for each in self.statistics.values() if isinstance(each, kinds)]
        return bool(needing) and not any(each.lists for each in needing)

    @property
    def hits(self) -> list[Hits]:
        """All statistics of hits."""
        return [each for each in self.statistics.values() if isinstance(each, Hits)]

    def update_coded(self, coded: Coded) -> None:
        """Count many lists whose ids are numbers; only what needs events is given events."""
        for statistic in self.statistics.values():
            if isinstance(statistic, Hits | Exposures):
                statistic.update_coded(coded)
            else:
                statistic.update_many(coded.batch)
        if self.plan.events:
            self.events.update_many(coded.batch)

    def update_many(self, batch: Batch) -> None:
        """Count many lists in every statistic."""
        for statistic in self.statistics.values():
            statistic.update_many(batch)
        if self.plan.events:
            self.events.update_many(batch)

    def merge(self, other: Evidence) -> None:
        """Add what another one counted.

        Raises:
            UnlikeStateError: it keeps other statistics.
        """
        if other.plan != self.plan:
            raise UnlikeStateError("statistics", self.plan.names, other.plan.names)
        for options, statistic in self.statistics.items():
            statistic.merge(other.statistics[options])
        for mine, theirs in ((self.graded, other.graded), (self.values, other.values)):
            for text, distribution in theirs.items():
                mine[text].merge(distribution)
        self.events.merge(other.events)

    def copy(self) -> Evidence:
        """An independent one with the same content."""
        twin = object.__new__(Evidence)
        twin.plan, twin.by_lists = self.plan, self.by_lists
        twin.graded = {text: kept.copy() for text, kept in self.graded.items()}
        twin.values = {text: kept.copy() for text, kept in self.values.items()}
        twin.events = self.events.copy()
        twin.statistics = {
            options: kept.copy(twin._listener(options)) if isinstance(kept, Hits) else kept.copy()
            for options, kept in self.statistics.items()
        }
        return twin

    def state_dict(self) -> dict[str, Any]:
        """Plain integers and strings; equal content gives equal state."""
        statistics = [statistic.state_dict() for statistic in self.statistics.values()]
        return {
            "statistics": statistics,
            "graded": {text: kept.state_dict() for text, kept in self.graded.items()},
            "values": {text: kept.state_dict() for text, kept in self.values.items()},
            "events": self.events.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take the place of the content by what `state_dict` gave.

        Raises:
            UnlikeStateError: it keeps other statistics.
        """
        here = (f"{len(self.statistics)} statistics", *self.graded, *self.values)
        saved = state["statistics"], state["graded"], state["values"]
        there = (f"{len(saved[0])} statistics", *saved[1], *saved[2])
        if here != there:
            raise UnlikeStateError("statistics", here, there)
        for statistic, saved in zip(self.statistics.values(), state["statistics"], strict=True):
            statistic.load_state_dict(saved)
        for kind, kept in (("graded", self.graded), ("values", self.values)):
            for text, distribution in kept.items():
                distribution.load_state_dict(state[kind][text])
        self.events.load_state_dict(state["events"])

    def _made(self, options: Hashable) -> Statistic:
        if isinstance(options, HitsOptions):
            return Hits(options, self._listener(options))
        made: Statistic = _KINDS[type(options)](options)
        return made

    def _listener(self, options: Hashable) -> Listener | None:
        def reading(metrics: Sequence[Metric]) -> list[Metric]:
            return [m for m in metrics if hits_options(m, self.plan.depth) == options]

        graded = [(m, self.graded[m.text]) for m in reading(self.plan.graded)]
        values = [(m, self.values[m.per_list]) for m in reading(self.plan.values)]
        # It must not know this object, which knows it: a ring would wait for the garbage collector.
        return partial(_follow, graded, values) if graded or values else None


def _follow(graded: Sequence[_Kept], values: Sequence[_Kept], lists: Lists) -> None:
    if isinstance(lists, GradedLists):
        for metric, kept in graded:
            kept.add(values_of(metric, lists), counting(metric, lists))
    for metric, kept in values:
        kept.add(values_of(metric, lists), counting(metric, lists))
