"""Plans: the statistics that a set of metrics needs."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from datetime import date
from functools import lru_cache
from numbers import Integral
from typing import Any, Final, TypeAlias

import msgspec

from streameval.catalogue import metric_of, parse
from streameval.catalogue.companions import companions
from streameval.catalogue.grammar import format_value
from streameval.catalogue.metric import Metric
from streameval.catalogue.signature import PER_USER, SUMMARY
from streameval.events.errors import (
    MetricError,
    NotKeptError,
    OwnMetricError,
)
from streameval.inference.days import number_of_day
from streameval.statistics.distributions import OF_WEIGHTS, ValuesOptions
from streameval.statistics.lists import HitsOptions
from streameval.statistics.matching import Search, widest
from streameval.statistics.options import (
    EXPERIMENT_USERS,
    MAX_ITEMS,
    MOST_USERS,
    PANE_USERS,
    Exposed,
    ExposuresOptions,
    GroupsOptions,
    PairingsOptions,
    PlacementsOptions,
    RankSumsOptions,
    ScoresOptions,
    UsersOptions,
    UserSumsOptions,
)

WHOLE = 0
"""The depth that keeps whole lists, even if the metrics need fewer ranks."""

ALL_CLICKS: Final = HitsOptions()
"""Whole lists, of which an experiment counts the clicks of each user."""

GROUPS_PREFIX = "groups:"
"""Beginning of the name of group sums in saved states; their number follows."""

USER_SUMS_PREFIX = "usersums:"
"""Beginning of the name of sums by user; the largest number of users follows."""

PRE_PERIOD_PREFIX = "preperiod:"
"""Beginning of the name of sums by user before an experiment; its first day and their number
follow: another period starts empty."""

PANE_GROUPS = 64
"""User groups of a pane, which has fewer lists than a lifetime."""


class PrePeriod(msgspec.Struct, frozen=True, kw_only=True):
    """The days before an experiment, whose sums by user adjust its values.

    Attributes:
        since: first day of the experiment (UTC), the first one that is not among them.
        days: number of days.
        metrics: canonical texts of metrics that are summed besides clicks and lists.

    Example:
        >>> PrePeriod(since=date(2026, 3, 1)).span
        (20485, 20513)
    """

    since: date
    days: int = 28
    metrics: tuple[str, ...] = ()

    @property
    def span(self) -> tuple[int, int]:
        """The first day, and the one after the last; days since 1970-01-01."""
        end = number_of_day(self.since)
        return end - self.days, end

    @property
    def name(self) -> str:
        """The name of its sums in saved states."""
        return f"{PRE_PERIOD_PREFIX}{self.since}:{self.days}"


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The statistics of one Accumulator.

    Attributes:
        depth: ranks kept; None keeps whole lists.
        max_items: largest number of items whose exposures are counted exactly.
        needs: options of each statistic, except those of values.
        graded: metrics whose values of lists with gains are kept.
        values: metrics whose values of all lists are kept; one per `Metric.per_list`.
        events: metrics whose values of all events are kept; one per `Metric.per_list`.
        grouped: metrics whose group sums are kept; one per `Metric.per_list`.
        groups: number of user groups; 0 without group sums.
        daily: whether group sums are kept by event day.
        users: largest number of users kept per cell; 0 without users.
        activity: metrics among `grouped` that count the lists and the clicks of each user group,
            at every rank, however few the other metrics read.
        per_user: metrics whose sums by user are kept; one per `Metric.per_list`.
        user_sums: largest number of users per cell whose sums are kept; 0 without such metrics.
        before: metrics among `grouped` whose sums by user are kept in the pre-period, too.
        pre_period: the days before the experiment; None if they are not kept.
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
    users: int = 0
    activity: tuple[Metric, ...] = ()
    per_user: tuple[Metric, ...] = ()
    user_sums: int = 0
    before: tuple[Metric, ...] = ()
    pre_period: PrePeriod | None = None

    def need(self, metric: Metric) -> Hashable:
        """Options of the statistic that a metric reads; None for a metric of events."""
        reads = metric.definition.reads
        if reads in ("hits", "lists"):
            return hits_options(metric, self.depth)
        if reads in ("exposures", "users"):
            counted: Exposed = "items"
            if reads == "users":
                counted = "users" if metric.values["having"] == "item" else "users_with_hits"
            return ExposuresOptions(cutoff=metric.k, max_items=self.max_items, of=counted)
        if reads == "placements":
            return PlacementsOptions(by=metric.attribute or "", type=str(metric.values["type"]))
        if reads == "pairings":
            return PairingsOptions(cutoff=metric.k)
        if reads in ("scores", "ranksums"):
            given = {**metric.values, **metric.rules}
            chosen = {name: given[name] for name in RankSumsOptions.__struct_fields__}
            return msgspec.convert(chosen, ScoresOptions if reads == "scores" else RankSumsOptions)
        return None

    def summed_lists(self, metric: Metric) -> HitsOptions:
        """The lists of which a metric of hits is summed by user."""
        return ALL_CLICKS if metric in self.activity else hits_options(metric, self.depth)

    @property
    def search(self) -> Search:
        """How whole lists are searched for the hits that the statistics read."""
        return self.search_among("")

    def search_among(self, among: str) -> Search:
        """How lists of the items of a value, such as "tier:tail", are searched; "" is all items."""
        needs = [need for need in self.needs if isinstance(need, HitsOptions)]
        if self.activity:
            needs.append(ALL_CLICKS)
        return widest([need.search for need in needs if need.among == among])

    @property
    def overlap(self) -> Metric | None:
        """The metric that tells which lists were shown, of the deepest cut-off, or None."""
        overlaps = filter(tells_unshown, self.events)
        return max(overlaps, key=lambda metric: metric.k or math.inf, default=None)

    @property
    def has_formulas(self) -> bool:
        """Whether a formula reads each event, and may refuse it."""
        return bool(self.events or self.events_by_user)

    @property
    def reads_lists(self) -> bool:
        """Whether a statistic reads more of a list than its hits and its items up to `shown`."""
        return not all(map(_reads_hits_or_items, self.needs))

    @property
    def reads_users(self) -> bool:
        """Whether sums are kept by user, or by user group."""
        return bool(self.groups or self.user_sums)

    @property
    def summed(self) -> tuple[Metric, ...]:
        """The metrics whose values are summed by user or user group; one per `Metric.per_list`."""
        return _by_text(
            {
                summed_metric.per_list: summed_metric
                for summed_metric in (*self.grouped, *self.per_user)
            }
        )

    @property
    def events_by_user(self) -> tuple[Metric, ...]:
        """The metrics of events whose values are only summed by user."""
        event_texts = {event.per_list for event in self.events}
        reading = (by_user for by_user in self.per_user if by_user.definition.reads == "event")
        return tuple(by_user for by_user in reading if by_user.per_list not in event_texts)

    @property
    def shown(self) -> slice | None:
        """The items of a list that are counted; None if none are."""
        cuts = [need.cutoff for need in self.needs if isinstance(need, ExposuresOptions)]
        whole = None in cuts
        return slice(None if whole else max(filter(None, cuts))) if cuts else None

    @property
    def of_pane(self) -> Plan:
        """The plan of a pane, which can be summed into windows."""
        groups, user_sums = min(self.groups, PANE_GROUPS), min(self.user_sums, PANE_USERS)
        none = {"daily": False, "users": 0, "before": (), "pre_period": None}
        return msgspec.structs.replace(self, groups=groups, user_sums=user_sums, **none)

    @property
    def without_users(self) -> Plan:
        """The plan without group sums and users."""
        return self._without(_OF_GROUPS | _OF_USERS)

    @property
    def by_day(self) -> Plan:
        """The plan of only the group sums."""
        return self._without(_OF_EVENTS | _OF_USERS)

    @property
    def of_users(self) -> Plan:
        """The plan of only the users, and the sums by user."""
        return self._without(_OF_EVENTS | _OF_GROUPS)

    def _without(self, fields: frozenset[str]) -> Plan:
        """The plan with the defaults of these fields."""
        defaults = Plan(depth=self.depth, max_items=self.max_items)
        return msgspec.structs.replace(self, **{name: getattr(defaults, name) for name in fields})

    def within(self, other: Plan) -> bool:
        """Whether `other` keeps the same statistics, and as much or more by user."""
        if self is other:
            return True
        grouped = not self.groups or (self.grouped == other.grouped and self.groups <= other.groups)
        summed = not self.user_sums or (other.user_sums > 0 and self.per_user == other.per_user)
        before = self.before, self.pre_period
        return (
            grouped
            and summed
            and before in (((), None), (other.before, other.pre_period))
            and self.daily <= other.daily
            and self.users <= other.users
            and self.without_users == other.without_users
        )

    @property
    def names(self) -> tuple[str, ...]:
        """A description of each statistic; equal only for equal plans."""
        depth = "whole lists" if self.depth is None else f"depth {self.depth}"
        graded = (f"values of {metric.text} with gains" for metric in self.graded)
        values = (f"values of {metric.per_list}" for metric in (*self.values, *self.events))
        grouped = (f"{metric.per_list} by {self.groups} user groups" for metric in self.grouped)
        users = (f"at most {self.users} users",) if self.users else ()
        summed = (
            f"{by_user.per_list} of at most {self.user_sums} users" for by_user in self.per_user
        )
        before = (f"{metric.per_list} in {self.pre_period}" for metric in self.before)
        by_user = (*users, *summed, *before)
        return (depth, *map(name_of, self.needs), *graded, *values, *grouped, *by_user)

    @property
    def statistics(self) -> dict[str, Hashable]:
        """The options of each statistic by its name in saved states, in the order of the names."""
        options = {name_of(need): need for need in self.needs}
        options |= {f"graded:{metric.text}": ValuesOptions() for metric in self.graded}
        options |= {f"values:{metric.per_list}": ValuesOptions() for metric in self.values}
        for metric in self.events:
            weighted = metric.definition.weighted
            options[f"events:{metric.per_list}"] = OF_WEIGHTS if weighted else ValuesOptions()
        if self.groups:
            options[self.groups_name] = GroupsOptions(
                groups=self.groups, daily=self.daily, metrics=_per_list(self.grouped)
            )
        if self.user_sums:
            options[self.user_sums_name] = UserSumsOptions(
                max_users=self.user_sums, metrics=_per_list(self.per_user)
            )
        if self.pre_period is not None:
            options[self.pre_period.name] = UserSumsOptions(
                max_users=self.users, metrics=_per_list(self.before), days=self.pre_period.span
            )
        if self.users:
            options["users"] = UsersOptions(max_users=self.users)
        return dict(sorted(options.items()))

    @property
    def groups_name(self) -> str:
        """The name of the group sums in saved states."""
        return f"{GROUPS_PREFIX}{self.groups}"

    @property
    def user_sums_name(self) -> str:
        """The name of the sums by user in saved states."""
        return f"{USER_SUMS_PREFIX}{self.user_sums}"


_OF_EVENTS: Final = frozenset(("needs", "graded", "values", "events"))
_OF_GROUPS: Final = frozenset(("grouped", "groups", "daily", "activity"))
_OF_USERS: Final = frozenset(("users", "per_user", "user_sums", "before", "pre_period"))
"""Fields of a plan: of statistics of events, of sums by user group, and by user."""

Asked: TypeAlias = str | Metric | Callable[..., Any]
"""A metric by its text, itself, or by the function that was decorated."""


def asked_metrics(given: Iterable[Asked | Sequence[Asked]]) -> tuple[Metric, ...]:
    """The metrics without repeats, by text; a list or tuple stands for its entries.

    Raises:
        OwnMetricError: two different functions have one text.
        MetricError: one is no metric.

    Example:
        >>> [metric.text for metric in asked_metrics(["mrr", ["ndcg@10", "mrr"]])]
        ['mrr', 'ndcg@10']
    """
    by_text: dict[str, Metric] = {}
    for asked in given:
        for metric in map(metric_of, asked if isinstance(asked, list | tuple) else [asked]):
            first = by_text.setdefault(metric.text, metric)
            if first.definition.function is not metric.definition.function:
                problem = (
                    f"metric {metric.text!r} names two different functions; rename one of them"
                )
                problem += ", or make them one metric with a parameter."
                raise OwnMetricError(metric.text, problem)
    return tuple(by_text.values())


def make_plan(
    metrics: Sequence[Metric],
    depth: int | None,
    max_items: int,
    groups: int = 0,
    *,
    experiment: bool | PrePeriod = False,
) -> Plan:
    """The smallest plan for these metrics, independent of their order.

    Args:
        metrics: at least one.
        depth: ranks to keep; None for as few as possible, WHOLE for all.
        max_items: largest number of items whose exposures are counted exactly.
        groups: number of user groups; 0 for no group sums.
        experiment: whether cells are variants of an experiment, which is checked by its users, and
            the days before it if they adjust its values.

    Raises:
        MetricError: no metric is given, or a number is not valid.
        NotKeptError: the cut-off of a metric exceeds the given depth.
    """
    if not metrics:
        raise MetricError("no metric was given; name at least one, for example 'ndcg@10'")
    max_items = _whole_number("max_items", max_items, 1)
    if depth is not None:
        depth = _whole_number("depth", depth, WHOLE)
    metrics = [*metrics, *(companion for metric in metrics for companion in companions(metric))]
    ranked = [metric for metric in metrics if metric.definition.reads in ("hits", "lists")]
    if depth == WHOLE:
        depth = None
    elif depth is not None:
        for metric in ranked:
            check_depth(metric, depth)
    elif all(metric.k is not None for metric in ranked):
        depth = max((metric.k for metric in ranked if metric.k is not None), default=None)
    counted = any(metric.definition.reads in ("exposures", "users") for metric in metrics)
    by_list = [metric for metric in metrics if not metric.is_per_user]
    ranked = [metric for metric in ranked if not metric.is_per_user]
    per_user = _by_text({m.per_list: _over_lists(m) for m in metrics if m.is_per_user})
    plan = Plan(depth=depth, max_items=max_items if counted else MAX_ITEMS)
    needs = {options for options in map(plan.need, metrics) if options is not None}
    activity = (parse("hit_rate"), parse("ctr")) if groups and experiment else ()
    pre_period = experiment if groups and isinstance(experiment, PrePeriod) else None
    before = (
        [*activity, *(m for m in by_list if m.has_interval and m.text in pre_period.metrics)]
        if pre_period is not None
        else []
    )
    return msgspec.structs.replace(
        plan,
        needs=tuple(sorted(needs, key=str)),
        graded=_by_text({m.text: m for m in ranked if m.needs_gains and not m.needs_values}),
        values=_by_text({m.per_list: m for m in ranked if m.needs_values}),
        events=_by_text({m.per_list: m for m in by_list if m.definition.reads == "event"}),
        grouped=_by_text(
            {m.per_list: m for m in (*by_list, *activity) if groups and m.has_interval}
        ),
        groups=groups,
        daily=groups > 0,
        users=(EXPERIMENT_USERS if experiment else MOST_USERS) if groups else 0,
        activity=activity,
        per_user=per_user,
        user_sums=MOST_USERS if per_user else 0,
        before=_by_text({m.per_list: m for m in before}),
        pre_period=pre_period,
    )


def tells_unshown(metric: Metric) -> bool:
    """Whether a metric has a value for lists that were not shown only."""
    # A pickled definition is a copy; its function is not.
    return metric.definition.function is parse("overlap").definition.function


def _over_lists(metric: Metric) -> Metric:
    """The metric whose mean is over lists, with the same value of each list."""
    options = {name: value for name, value in metric.options.items() if name not in SUMMARY}
    return msgspec.structs.replace(
        metric,
        values={**metric.values, "statistic": "mean", PER_USER: "list"},
        options=options,
        text=metric.per_list,
        alias=None,
    )


def _whole_number(name: str, number: Any, least: int) -> int:
    if type(number) is bool or not isinstance(number, Integral) or number < least:
        raise MetricError(f"{name}={number!r:.80}: give a whole number, at least {least}")
    return int(number)


def check_depth(metric: Metric, depth: int | None) -> None:
    """Refuse a metric whose cut-off exceeds the ranks kept.

    Raises:
        NotKeptError: the cut-off is larger than `depth`.
    """
    if depth is not None and (metric.k is None or metric.k > depth):
        needed = "the whole list" if metric.k is None else f"rank {metric.k}"
        why = f"{needed}, but only the first {depth} ranks are kept"
        raise NotKeptError(metric.text, why, metric.k, depth)


def _reads_hits_or_items(options: object) -> bool:
    if isinstance(options, HitsOptions):
        compact = options.repeats.startswith("compact")
        special = options.type or options.among or compact
        return not special and options.ids == "any"
    return isinstance(options, ExposuresOptions) and options.of == "items"


def hits_options(metric: Metric, depth: int | None) -> HitsOptions:
    """Options of the Hits statistic that a metric reads."""
    after_cut = metric.values["repeats"] == "compact_after_cut"
    rows = (metric.values["rows"] or metric.k) if after_cut else None
    given = {**metric.values, **metric.rules, "rows": rows, "depth": depth}
    return msgspec.convert(given, HitsOptions)


@lru_cache(maxsize=256)
def name_of(options: Hashable) -> str:
    """The name of a statistic in saved states: its kind and its options.

    Example:
        >>> name_of(HitsOptions(depth=10, repeats="every"))
        'hits(depth=10,repeats=every)'
    """
    usual, fields = type(options)(), sorted(type(options).__struct_fields__)  # type: ignore[attr-defined]  # all are Structs
    chosen = ((name, getattr(options, name)) for name in fields)
    parts = (
        f"{name}={format_value(value)}" for name, value in chosen if value != getattr(usual, name)
    )
    inside = ",".join(parts)
    kind = type(options).__name__.removesuffix("Options").lower()
    return f"{kind}({inside})" if inside else kind


def _per_list(metrics: Iterable[Metric]) -> tuple[str, ...]:
    return tuple(metric.per_list for metric in metrics)


def _by_text(metrics: Mapping[str, Metric]) -> tuple[Metric, ...]:
    """The metrics by text, so that their order does not depend on the caller."""
    return tuple(metrics[text] for text in sorted(metrics))
