"""A batch that is counted: what several statistics read of it, made once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
import numpy as np

from streameval.accumulator.formulas import (
    EventValues,
    items_at,
    largest_rounded,
    of_events,
    sums_of_lists,
)
from streameval.catalogue.context import Context
from streameval.catalogue.metric import Metric
from streameval.events import Batch
from streameval.events.extras import LazyModule
from streameval.statistics.arrays import IntArray
from streameval.statistics.hits import explicit_ranks_within
from streameval.statistics.lists import HitsOptions, Lists, lists_of
from streameval.statistics.matching import Search, matched

if TYPE_CHECKING:
    from streameval.statistics import terms, users
    from streameval.statistics.terms import Terms
    from streameval.statistics.users import ListUsers
else:
    # A loop that only counts hits needs none of it.
    terms = LazyModule("streameval.statistics.terms")
    users = LazyModule("streameval.statistics.users")

RankedLists: TypeAlias = Sequence[tuple[IntArray, Lists]]
"""Indices of lists in the batch, and these lists: without and with gains apart."""


class SummedMetric(msgspec.Struct, frozen=True):
    """A metric whose values are summed by user or user group.

    Attributes:
        lists: those whose values are summed; None for a metric of events.
    """

    metric: Metric
    lists: HitsOptions | None

    @property
    def text(self) -> str:
        """The metric's text, without parameters of its summary."""
        return self.metric.per_list


class CountedEvents(msgspec.Struct, frozen=True):
    """Events to be counted.

    Attributes:
        batch: its `times` are an array, or None without event time.
        cells: the cell of each.
        values: for each, the value of each metric of events.
    """

    batch: Batch
    cells: IntArray
    values: EventValues


class CountedBatch:
    """A batch while statistics count it.

    Args:
        events: those of the batch.
        context: the inputs of metrics.
        formulas: the metrics of events that `values` are of.
        searches: items, such as "tier:tail" ("" is all) -> how their lists are searched.
    """

    def __init__(
        self,
        events: CountedEvents,
        context: Context,
        formulas: Sequence[Metric],
        searches: Mapping[str, Search],
    ) -> None:
        self.cells, self.context = events.cells, context
        self._events, self._formulas, self._searches = events, formulas, searches
        self._parts: dict[str, Batch] = {}
        self._lists: dict[HitsOptions, RankedLists] = {}
        self._terms: dict[tuple[str, HitsOptions | None], Sequence[Terms]] = {}

    def part(self, item_filter: str = "") -> Batch:
        """The lists of the items of a value, such as "tier:tail", with their hits; "" is all."""
        if item_filter not in self._parts:
            part = self._events.batch
            if item_filter:
                part = part.among(self.context.group(item_filter))
            self._parts[item_filter] = matched(part, self._searches[item_filter])
        return self._parts[item_filter]

    def lists(self, options: HitsOptions) -> RankedLists:
        """The lists, as metrics of hits with these options read them."""
        if options not in self._lists:
            part = self.part(options.among)
            self._lists[options] = [*lists_of(options, part, self.cells)]
        return self._lists[options]

    def ranks(self, options: HitsOptions) -> tuple[IntArray, IntArray] | None:
        """List and rank of each item at an explicit position; None if no list has any."""
        part = self.part(options.among)
        return None if part.positions is None else explicit_ranks_within(options, part)

    def results(self, metric: Metric) -> Sequence[Any]:
        """The result of the formula of a metric of events for each event."""
        return self._results[metric.per_list]

    @cached_property
    def users(self) -> ListUsers:
        """The user and the day of each list."""
        batch, cells, _ = msgspec.structs.astuple(self._events)
        key, times = self.context.user_key, batch.times
        days = None if times is None else self.context.calendar.days(times)
        return users.users_of(batch, cells, days, users.user_hashes if key is None else key.hashes)

    @property
    def part_of_users(self) -> Batch:
        """All lists, for a statistic that keeps users: with a key, pseudonyms are their users."""
        part, key = self.part(), self.context.user_key
        if key is None or part.users is None:
            return part
        user_of = {row: user for row, user in enumerate(part.users) if user is not None}
        pseudonyms: list[Any] = [None] * len(part)
        for row, name in zip(user_of, key.pseudonyms([*user_of.values()]), strict=True):
            pseudonyms[row] = name
        return msgspec.structs.replace(part, users=pseudonyms)

    def terms(self, summed: Sequence[SummedMetric]) -> list[Terms]:
        """The contributions of the lists to the sums of metrics."""
        return [term for of_metric in summed for term in self._terms_of(of_metric)]

    def _terms_of(self, summed: SummedMetric) -> Sequence[Terms]:
        key = summed.text, summed.lists
        if key not in self._terms:
            self._terms[key] = self._new_terms(summed.metric, summed.lists)
        return self._terms[key]

    def _new_terms(self, metric: Metric, options: HitsOptions | None) -> list[Terms]:
        text, largest = metric.per_list, largest_rounded(metric)
        if options is None:
            numerators, denominators = map(np.array, of_events(self.results(metric)))
            return [terms.Terms(self._every, text, largest, numerators, denominators)]
        result = []
        if (explicit := self.ranks(options)) is not None:
            rows, ranks = explicit
            per_item = metric.definition.per == "item"
            counts = items_at(metric, ranks) if per_item else np.zeros_like(ranks)
            result.append(terms.Terms(rows, text, largest, np.zeros(ranks.size), counts))
        for rows, lists in self.lists(options):
            result.append(
                terms.Terms(rows, text, largest, *sums_of_lists(metric, lists, self.context))
            )
        return result

    @cached_property
    def _every(self) -> IntArray:
        return np.arange(self.cells.size)

    @cached_property
    def _results(self) -> Mapping[str, Sequence[Any]]:
        columns = zip(*self._events.values, strict=True)
        texts = (metric.per_list for metric in self._formulas)
        return dict(zip(texts, columns, strict=True))
