"""Plans: the statistics that a set of metrics needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from numbers import Integral
from typing import Any, TypeAlias

import msgspec

from streameval.accumulator.kinds import statistic_kind
from streameval.accumulator.kinds.groups import interval_sums
from streameval.accumulator.kinds.hits import check_depth
from streameval.accumulator.kinds.spec import Need, PlanLimits, Scope, StatisticSpec
from streameval.accumulator.kinds.users import interval_users
from streameval.catalogue import metric_of
from streameval.catalogue.companions import companions
from streameval.catalogue.metric import Metric
from streameval.events.errors import MetricError, OwnMetricError, OwnStatisticError
from streameval.statistics.matching import Search, widest

ALL_LISTS = 0
"""The depth that keeps whole lists, even if the metrics need fewer ranks."""


class Plan(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The statistics of one Accumulator.

    Attributes:
        specs: of each statistic, in the order of their descriptions.
    """

    limits: PlanLimits
    specs: tuple[StatisticSpec, ...]

    def at(self, scope: Scope) -> Plan:
        """The plan of a part of the windows."""
        scoped = (spec.scoped(scope) for spec in self.specs)
        return Plan(limits=self.limits, specs=tuple(spec for spec in scoped if spec is not None))

    def within(self, other: Plan) -> bool:
        """True if `other` keeps the same statistics, and as much or more by user."""
        if self is other:
            return True
        own_slots, other_slots = self.by_slot, other.by_slot
        return (
            self.limits.depth == other.limits.depth
            and all(
                slot in other_slots and spec.within(other_slots[slot])
                for slot, spec in own_slots.items()
            )
            and all(spec.is_optional or slot in own_slots for slot, spec in other_slots.items())
        )

    @property
    def descriptions(self) -> tuple[str, ...]:
        """A description of each statistic; equal only for equal plans."""
        depth = self.limits.depth
        first = "whole lists" if depth is None else f"depth {depth}"
        return (first, *(text for spec in self.specs for text in spec.descriptions))

    @cached_property
    def by_name(self) -> Mapping[str, StatisticSpec]:
        """The statistics by their names in saved states, in the order of the names."""
        return dict(sorted((spec.name, spec) for spec in self.specs))

    @cached_property
    def by_slot(self) -> Mapping[str, StatisticSpec]:
        """The statistics by their slots."""
        return {spec.slot: spec for spec in self.specs}

    @cached_property
    def name_at(self) -> Mapping[str, str]:
        """Slot -> name of the statistic in it."""
        return {spec.slot: name for name, spec in self.by_name.items()}

    @cached_property
    def searches(self) -> Mapping[str, Search]:
        """Items, such as "tier:tail" ("" is all) -> how lists are searched for their hits."""
        lists = [options for spec in self.specs for options in spec.lists]
        return {
            item_filter: widest([each.search for each in lists if each.among == item_filter])
            for item_filter in {"", *(each.among for each in lists)}
        }

    @property
    def search(self) -> Search:
        """The search of whole lists for the hits that the statistics read."""
        return self.searches[""]

    @cached_property
    def formulas(self) -> tuple[Metric, ...]:
        """The metrics of events whose formulas read each event, and may refuse it."""
        metrics = (metric for spec in self.specs for metric in spec.formulas)
        return tuple({metric.per_list: metric for metric in metrics}.values())

    @cached_property
    def reads_lists(self) -> bool:
        """True if a statistic reads more of a list than its hits and its first items."""
        return any(spec.reads_lists for spec in self.specs)

    @cached_property
    def reads_users(self) -> bool:
        """True if a statistic reads the users of lists."""
        return any(spec.reads_users for spec in self.specs)

    @cached_property
    def recommended(self) -> slice | None:
        """The part of a list whose items are counted; None if none are."""
        parts = [spec.recommended for spec in self.specs if spec.recommended is not None]
        ends = [part.stop for part in parts]
        return slice(None if None in ends else max(ends)) if parts else None

    @cached_property
    def at_once(self) -> tuple[str, ...]:
        """Names of the statistics that count items before lists wait without them."""
        if self.reads_lists:
            return ()
        return tuple(name for name, spec in self.by_name.items() if spec.recommended is not None)

    @cached_property
    def later(self) -> tuple[tuple[str, StatisticSpec], ...]:
        """The other statistics."""
        return tuple(pair for pair in self.by_name.items() if pair[0] not in self.at_once)


Asked: TypeAlias = str | Metric | Callable[..., Any]
"""A metric by its text, itself, or by the function that was decorated."""


def asked_metrics(asked: Iterable[Asked | Sequence[Asked]]) -> tuple[Metric, ...]:
    """The metrics without repeats, by text; a list or tuple stands for its entries.

    Raises:
        OwnMetricError: two different functions have one text.
        MetricError: one is not a metric.

    Example:
        >>> [metric.text for metric in asked_metrics(["mrr", ["ndcg@10", "mrr"]])]
        ['mrr', 'ndcg@10']
    """
    by_text: dict[str, Metric] = {}
    for several in asked:
        for metric in map(metric_of, several if isinstance(several, list | tuple) else [several]):
            first = by_text.setdefault(metric.text, metric)
            if first.definition.function is not metric.definition.function:
                problem = (
                    f"metric {metric.text!r} names two different functions; rename one of them"
                )
                problem += ", or make them one metric with a parameter."
                raise OwnMetricError(problem, metric=metric.text)
    return tuple(by_text.values())


def make_plan(
    metrics: Sequence[Metric],
    depth: int | None,
    max_items: int,
    groups: int = 0,
    *,
    needs: Iterable[Need] = (),
) -> Plan:
    """The smallest plan for these metrics, independent of their order.

    Args:
        metrics: at least one.
        depth: ranks to keep; None for as few as possible, WHOLE for all.
        max_items: largest number of items whose exposures are counted exactly.
        groups: number of user groups; 0 for no group sums.
        needs: what analyses keep besides.

    Raises:
        MetricError: no metric is given, or a number is not valid.
        NotKeptError: the cut-off of a metric exceeds the given depth.
        MetricTextError: a percentile stands for a number of a metric.
        OwnStatisticError: two statistics have one name.
    """
    if not metrics:
        raise MetricError("no metric was given; name at least one, for example 'ndcg@10'")
    for metric in metrics:
        metric.require_numbers()
    max_items = _whole_number("max_items", max_items, 1)
    if depth is not None:
        depth = _whole_number("depth", depth, ALL_LISTS)
    metrics = [*metrics, *(companion for metric in metrics for companion in companions(metric))]
    limits = PlanLimits(_depth(metrics, depth), max_items)
    by_slot: dict[str, StatisticSpec] = {}
    several = [
        *(statistic_kind(metric).specs(metric, limits) for metric in metrics),
        *(
            [need] if isinstance(need, StatisticSpec) else need(metrics, limits, groups)
            for need in (interval_sums, interval_users, *needs)
        ),
    ]
    for specs in several:
        for spec in specs:
            earlier = by_slot.get(spec.slot)
            by_slot[spec.slot] = spec if earlier is None else _joined(earlier, spec)
    return Plan(limits=limits, specs=tuple(sorted(by_slot.values(), key=lambda spec: spec.order)))


def _joined(earlier: StatisticSpec, spec: StatisticSpec) -> StatisticSpec:
    """One specification for two of one slot.

    Raises:
        OwnStatisticError: they are of different statistics, which have one name.
    """
    kinds = [type(getattr(each, "options", each)) for each in (earlier, spec)]
    if kinds[0] is not kinds[1]:
        first, second = (f"{kind.__module__}.{kind.__qualname__}" for kind in kinds)
        problem = f"two statistics have the name {spec.name!r}, of {first} and of {second}; rename"
        raise OwnStatisticError(
            f"{problem} the class of the options of yours.", statistic=spec.name
        )
    return earlier.joined(spec)


def _depth(metrics: Sequence[Metric], depth: int | None) -> int | None:
    """The ranks to keep; None for whole lists."""
    ranked = [metric for metric in metrics if metric.reads in ("hits", "lists")]
    if depth == ALL_LISTS:
        return None
    if depth is not None:
        for metric in ranked:
            check_depth(metric, depth)
        return depth
    cuts = [metric.k for metric in ranked if metric.k is not None]
    return max(cuts, default=None) if len(cuts) == len(ranked) else None


def _whole_number(name: str, number: Any, least: int) -> int:
    if type(number) is bool or not isinstance(number, Integral) or number < least:
        raise MetricError(f"{name}={number!r:.80}: give a whole number, at least {least}")
    return int(number)
