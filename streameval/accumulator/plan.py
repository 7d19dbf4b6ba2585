"""The statistics that a set of metrics needs."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache
from numbers import Integral
from typing import Any

import msgspec

from streameval.catalogue.grammar import written
from streameval.catalogue.metric import Metric
from streameval.errors import CutoffExceedsDepthError, MetricError
from streameval.statistics.exposures import MAX_ITEMS, Exposed, ExposuresOptions
from streameval.statistics.pairings import PairingsOptions
from streameval.statistics.profiles import HitsOptions
from streameval.statistics.scores import RankSumsOptions, ScoresOptions

WHOLE = 0
"""As a depth: keep whole lists, though the metrics need fewer ranks."""

PANE_GROUPS = 64
"""User groups of a pane: fewer, for it has fewer lists."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The statistics of one Accumulator.

    Attributes:
        depth: ranks kept; None keeps whole lists.
        max_items: most items of which exposures are counted exactly.
        needs: options of each statistic, but for the values of events.
        graded: metrics whose values on lists with gains are kept.
        values: metrics whose values on all lists are kept; one of each `Metric.per_list`.
        events: metrics whose values on all events are kept; likewise.
        grouped: metrics whose sums by user group are kept; likewise.
        groups: number of user groups; 0 where no sums are kept by user.
        daily: whether these sums are kept by event day.
        users: whether the users are kept.
    """

    depth: int | None
    max_items: int
    needs: tuple[Hashable, ...] = ()
    graded: tuple[Metric, ...] = ()
    values: tuple[Metric, ...] = ()
    events: tuple[Metric, ...] = ()
    grouped: tuple[Metric, ...] = ()
    groups: int = 0
    daily: bool = False
    users: bool = False

    def need(self, metric: Metric) -> Hashable:
        """Options of the statistic that a metric reads; None for values of events."""
        reads = metric.definition.reads
        if reads in ("hits", "lists"):
            return hits_options(metric, self.depth)
        if reads in ("exposures", "users"):
            counted = _exposed(metric)
            return ExposuresOptions(cutoff=metric.k, max_items=self.max_items, of=counted)
        if reads == "pairings":
            return PairingsOptions(cutoff=metric.k)
        if reads in ("scores", "ranksums"):
            chosen = {name: metric.values[name] for name in RankSumsOptions.__struct_fields__}
            return msgspec.convert(chosen, ScoresOptions if reads == "scores" else RankSumsOptions)
        return None

    @property
    def of_pane(self) -> Plan:
        """What a span of time keeps of it, so that it can be a part of a window."""
        groups = min(self.groups, PANE_GROUPS)
        return msgspec.structs.replace(self, groups=groups, daily=False, users=False)

    @property
    def without_users(self) -> Plan:
        """The same without anything by user."""
        return msgspec.structs.replace(self, grouped=(), groups=0, daily=False, users=False)

    @property
    def by_day(self) -> Plan:
        """Its sums by user group alone."""
        bare = msgspec.structs.replace(self, needs=(), graded=(), values=(), events=())
        return msgspec.structs.replace(bare, users=False)

    @property
    def of_users(self) -> Plan:
        """The users alone."""
        return msgspec.structs.replace(self.by_day.without_users, users=True)

    def within(self, other: Plan) -> bool:
        """Whether another one keeps the same, or more of users."""
        if self is other:
            return True
        grouped = not self.groups or (self.grouped == other.grouped and self.groups <= other.groups)
        return (
            grouped
            and self.daily <= other.daily
            and self.users <= other.users
            and self.without_users == other.without_users
        )

    @property
    def names(self) -> tuple[str, ...]:
        """What is kept, in words; only equal plans have equal ones."""
        depth = "whole lists" if self.depth is None else f"depth {self.depth}"
        graded = (f"values of {metric.text} with gains" for metric in self.graded)
        values = (f"values of {metric.per_list}" for metric in (*self.values, *self.events))
        grouped = (f"{metric.per_list} by {self.groups} user groups" for metric in self.grouped)
        users = ("users",) if self.users else ()
        return (depth, *map(name_of, self.needs), *graded, *values, *grouped, *users)

    @property
    def valued(self) -> tuple[str, ...]:
        """Names of the statistics of values."""
        return (
            *(f"graded:{metric.text}" for metric in self.graded),
            *(f"values:{metric.per_list}" for metric in self.values),
            *(f"events:{metric.per_list}" for metric in self.events),
        )


def planned(metrics: Sequence[Metric], depth: int | None, max_items: int, groups: int = 0) -> Plan:
    """The smallest plan that answers the metrics, independent of their order.

    `depth`: ranks to keep; None the least, WHOLE all there are. `groups`: number of user groups
    that sums are kept by; 0 for none.

    Raises:
        MetricError: no metric is given, or a number is not one.
        CutoffExceedsDepthError: a metric lies beyond a depth that was asked for.
    """
    if not metrics:
        raise MetricError("no metric was given; name at least one, for example 'ndcg@10'")
    max_items = _whole_number("max_items", max_items, 1)
    if depth is not None:
        depth = _whole_number("depth", depth, WHOLE)
    ranked = [metric for metric in metrics if metric.definition.reads in ("hits", "lists")]
    if depth == WHOLE:
        depth = None
    elif depth is not None:
        for metric in ranked:
            check_depth(metric, depth)
    elif all(metric.k is not None for metric in ranked):
        depth = max((metric.k for metric in ranked if metric.k is not None), default=None)
    counted = any(metric.definition.reads in ("exposures", "users") for metric in metrics)
    plan = Plan(depth=depth, max_items=max_items if counted else MAX_ITEMS)
    needs = {options for options in map(plan.need, metrics) if options is not None}
    return msgspec.structs.replace(
        plan,
        needs=tuple(sorted(needs, key=str)),
        graded=_by_text({m.text: m for m in ranked if m.depends_on_gains}),
        values=_by_text({m.per_list: m for m in ranked if m.needs_values}),
        events=_by_text({m.per_list: m for m in metrics if m.definition.reads == "event"}),
        grouped=_by_text({m.per_list: m for m in metrics if groups and m.has_interval}),
        groups=groups,
        daily=groups > 0,
        users=groups > 0,
    )


def _whole_number(name: str, found: Any, least: int) -> int:
    if type(found) is bool or not isinstance(found, Integral) or found < least:
        raise MetricError(f"{name}={found!r:.80}: give a whole number, at least {least}")
    return int(found)


def check_depth(metric: Metric, depth: int | None) -> None:
    """Refuse a cut-off beyond the ranks that are kept.

    Raises:
        CutoffExceedsDepthError: it is.
    """
    if depth is not None and (metric.k is None or metric.k > depth):
        raise CutoffExceedsDepthError(metric.text, metric.k, depth)


def _exposed(metric: Metric) -> Exposed:
    """What a metric counts exposures of."""
    if metric.definition.reads == "exposures":
        return "items"
    return "users" if metric.values["having"] == "item" else "users_with_hits"


def hits_options(metric: Metric, depth: int | None) -> HitsOptions:
    """The Hits statistic that a metric reads."""
    known = {name: metric.values[name] for name in HitsOptions.__struct_fields__[1:]}
    after_cut = known["repeats"] == "compact_after_cut"
    rows = (known["rows"] or metric.k) if after_cut else None
    return msgspec.convert(known | {"rows": rows, "depth": depth}, HitsOptions)


@lru_cache(maxsize=256)
def name_of(options: Hashable) -> str:
    """The name of a statistic in what is saved: its kind, and what it was asked for.

    Example:
        >>> name_of(HitsOptions(depth=10, repeats="every"))
        'hits(depth=10,repeats=every)'
    """
    usual, fields = type(options)(), sorted(type(options).__struct_fields__)  # type: ignore[attr-defined]  # all are Structs
    chosen = ((name, getattr(options, name)) for name in fields)
    parts = (f"{name}={written(value)}" for name, value in chosen if value != getattr(usual, name))
    inside = ",".join(parts)
    kind = type(options).__name__.removesuffix("Options").lower()
    return f"{kind}({inside})" if inside else kind


def _by_text(metrics: Mapping[str, Metric]) -> tuple[Metric, ...]:
    """In an order that does not depend on how the metrics were named."""
    return tuple(metrics[text] for text in sorted(metrics))
