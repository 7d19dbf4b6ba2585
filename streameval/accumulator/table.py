"""The statistics of many cells, counted, merged and saved together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Final, NamedTuple, TypeAlias, cast

import numpy as np

from streameval.accumulator.codec import TableContent, dump_content, restore_content
from streameval.accumulator.formulas import (
    EventValues,
    Formula,
    formula,
    largest_rounded,
    mean_counts,
    of_events,
    sum_metric,
    values_of,
)
from streameval.accumulator.inputs import (
    Digests,
    digests_of,
    inputs_by_statistic,
    one_kind,
    united,
)
from streameval.accumulator.plan import (
    ALL_CLICKS,
    GROUPS_PREFIX,
    USER_SUMS_PREFIX,
    Plan,
    hits_options,
    name_of,
)
from streameval.catalogue.context import Context
from streameval.catalogue.metric import Metric
from streameval.events import Batch
from streameval.events.errors import UnlikeStateError
from streameval.events.ids import IdKind
from streameval.statistics.arrays import IntArray
from streameval.statistics.distributions import WEIGHTED, Values, ValuesOptions
from streameval.statistics.exposures import ExposuresOptions, ItemsShown
from streameval.statistics.groups import Groups, GroupsOptions
from streameval.statistics.hits import CollectedLists, Hits, Listener
from streameval.statistics.lists import HitsOptions, Lists
from streameval.statistics.matching import Search, matched
from streameval.statistics.pairings import ItemPairings, PairingsOptions
from streameval.statistics.placements import ItemPlacements, PlacementsOptions
from streameval.statistics.relation import Relation, Shape, next_version
from streameval.statistics.scores import (
    RankSumsOfLists,
    RankSumsOptions,
    ScoredItems,
    ScoresOptions,
)
from streameval.statistics.statistic import Cells, Statistic, cell_of_each
from streameval.statistics.terms import (
    EventCollector,
    ListCollector,
    ListsByUser,
    SummedMetric,
)
from streameval.statistics.user_sums import UserSums, UserSumsOptions
from streameval.statistics.users import Users, UsersOptions
from streameval.statistics.vocabulary import Items

_KINDS: Final[Mapping[type, type[Statistic]]] = {
    HitsOptions: Hits,
    ExposuresOptions: ItemsShown,
    PairingsOptions: ItemPairings,
    PlacementsOptions: ItemPlacements,
    ScoresOptions: ScoredItems,
    RankSumsOptions: RankSumsOfLists,
}
_MOST_WAITING: Final = 256
"""Number of batches at which their pending cells are counted."""

_Kept: TypeAlias = tuple[Metric, Values]


class _Consumers(NamedTuple):
    """The consumers of a batch.

    Attributes:
        by_user: lists that wait for statistics by user; None without any.
        statistics: those that count batches, by the items whose lists they count; "" is all.
        formulas: for each metric of events, its formula, values (None if only means over users
            are read) and collector.
        read: the part of each list that it reads; see `Metric.part_read`.
    """

    by_user: ListsByUser | None
    statistics: dict[str, list[Statistic | CollectedLists]]
    formulas: list[tuple[Formula, Values | None, EventCollector | None]]
    read: list[tuple[str, int | None]]


class Table:
    """One relation of integers per statistic: (cell, key columns...) -> counts.

    A cell is an integer from 0 up to 2^62 that the caller chooses, for example a slice of a pane.
    An Accumulator has only cell 0. The content is a function of the events counted in each cell.

    `items`: a vocabulary shared with other tables, so that adding them needs no translation.
    `ids`: the kind of ids counted; None before the first id.
    `statistics`: its content; new ones by default.

    Attributes:
        seen: input with a version -> digests of the contents that events were counted with.
        users: the kind of user ids; None before the first one.
        groups: sums by user group, if the plan has any; complete after `flush`.
        user_sums: sums by user, if the plan has any; complete after `flush`.
        audience: the users of each cell, if the plan has them; complete after `flush`.
        events: (cell) -> events; read only, complete after `flush`.
        statistics: by name, in the order of the names; complete after `flush`.
        version: a number unique in this process; every change assigns a new one.
    """

    def __init__(
        self,
        plan: Plan,
        context: Context,
        items: Items | None = None,
        ids: IdKind | None = None,
        statistics: Mapping[str, Statistic] | None = None,
    ) -> None:
        self.plan = plan
        self.context = context
        self.ids = ids
        self.users: IdKind | None = None
        self.seen: Digests = {}
        self.items = Items() if items is None else items
        self.version = next_version()
        self.events = Relation(Shape(keys=1))
        self._where: list[IntArray] = []
        self.set_statistics(self._new_statistics() if statistics is None else dict(statistics))

    def count(
        self,
        batch: Batch,
        cells: Cells = 0,
        times: IntArray | None = None,
        values: EventValues | None = None,
    ) -> None:
        """Count events.

        `times`: event time of each, microseconds since the epoch; by default those of the batch.
        `values`: the `event_values` of the batch, if they are known.
        """
        if not len(batch):
            return
        # First, because a formula may raise, and then nothing may be counted.
        values = self.event_values(batch) if values is None else values
        consumers = self._consumers
        self.seen = united(self.seen, digests_of(self.context))
        if consumers.by_user is not None:
            if consumers.by_user.is_full:
                self.flush()
            consumers.by_user.begin(batch, cells, times)
        where = cell_of_each(cells, len(batch))
        for among, statistics in consumers.statistics.items():
            part = matched(self._among(batch, among), self.plan.search_among(among))
            for statistic in statistics:
                statistic.count(part, where)
        self._count_lists(where)
        if consumers.formulas:
            self._count_values(values, where)
        self.version = next_version()

    def event_values(self, batch: Batch) -> EventValues:
        """For each event, the value of each metric of events; raises what a formula raises."""
        formulas, read = self._consumers.formulas, self._consumers.read
        if not formulas:
            return []
        if not any(among for among, _ in read):
            return [[value(event) for value, _, _ in formulas] for event in batch.events()]
        parts = {part: [*self._among(batch, *part).events()] for part in {*read}}
        pairs = zip(formulas, read, strict=True)
        columns = [list(map(value, parts[part])) for (value, _, _), part in pairs]
        return list(zip(*columns, strict=True))

    def flush(self) -> None:
        """Move pending counts into the relations; the content does not change."""
        self._flush_counts()
        # Hits first, because their listeners add to the values of lists.
        for statistic in sorted(self.statistics.values(), key=_is_not_hits):
            statistic.flush()

    @cached_property
    def search(self) -> Search:
        """How lists are searched for the hits that the statistics read."""
        return self.plan.search

    @property
    def waiting(self) -> int:
        """Number of pending rows that the next `flush` moves."""
        return sum(statistic.waiting for statistic in self.statistics.values())

    @property
    def cells(self) -> IntArray:
        """The cells with events, ascending."""
        self.flush()
        return self.events.cells

    def lists(self, cells: IntArray) -> IntArray:
        """Number of events of each cell."""
        self.flush()
        return self.events.value(cells)

    @property
    def reduced(self) -> bool:
        """Whether any cell was thinned or binned, so that it cannot be subtracted."""
        self.flush()
        return any(statistic.reduced for statistic in self.statistics.values())

    def empty(self, plan: Plan | None = None) -> Table:
        """A new table with the same vocabulary and inputs, and this plan or another."""
        statistics = None
        if plan is None:
            statistics = {name: statistic.empty() for name, statistic in self.statistics.items()}
        return Table(plan or self.plan, self.context, self.items, self.ids, statistics)

    def copy(self) -> Table:
        """An independent copy; it shares columns, which are immutable."""
        return self._mapped(lambda relation: relation.copy())

    def copied(self, earlier: tuple[int, Table] | None) -> tuple[int, Table]:
        """The version and a copy; the earlier copy if it has the same version."""
        return earlier if earlier and earlier[0] == self.version else (self.version, self.copy())

    def select(self, cells: IntArray) -> Table:
        """A table with only these cells, which ascend."""
        return self._mapped(lambda relation: relation.selected(cells))

    def distribute(self, bits: int, targets: Mapping[int, Table]) -> None:
        """Add each cell to the table of its upper bits, with its lower bits as the cell.

        Args:
            bits: number of lower bits.
            targets: upper bits -> table. Tables share one vocabulary, may keep less by user, and
                one table may appear several times.
        """
        self.flush()
        for upper, lists in self.events.split(bits):
            targets[upper].events.merge(lists)
        for name, statistic in self.statistics.items():
            counterparts = {at: target.counterpart(name) for at, target in targets.items()}
            statistic.distribute(
                bits,
                {
                    at: counterpart
                    for at, counterpart in counterparts.items()
                    if counterpart is not None
                },
            )
        for target in targets.values():
            target.ids = one_kind("ids", self.ids, target.ids)
            target.users = one_kind("users", self.users, target.users)
            target.seen = united(target.seen, self.seen)
            target.version = next_version()

    def counterpart(self, name: str) -> Statistic | None:
        """The statistic here for one of this name in another table; it may keep less by user."""
        if name.startswith(USER_SUMS_PREFIX):
            return self.user_sums
        return self.groups if name.startswith(GROUPS_PREFIX) else self.statistics.get(name)

    def add(self, *others: Table) -> None:
        """Add the counts of other tables, which do not change; adding many at once is faster.

        `others`: tables with the same plan, or with one that keeps more by user.

        Raises:
            UnlikeStateError: one has other statistics, or ids of the other kind.
        """
        self.ids, self.users = self.kinds_with(*others)
        self.seen = united(self.seen, *(other.seen for other in others))
        for table in (*others, self):
            table.flush()
        self.events.merge(*(other.events for other in others))
        for name, statistic in self.statistics.items():
            theirs: list[Any] = [other.counterpart(name) for other in others]
            statistic.merge(*theirs)
        self.version = next_version()

    def kinds_with(self, *others: Table) -> tuple[IdKind | None, IdKind | None]:
        """The kinds of item and user ids after `add`, which raises the same errors."""
        ids, users = self.ids, self.users
        for other in others:
            if not self.plan.within(other.plan):
                raise UnlikeStateError("statistics", self.plan.names, other.plan.names)
            ids, users = one_kind("ids", ids, other.ids), one_kind("users", users, other.users)
        return ids, users

    def subtract(self, other: Table) -> None:
        """Subtract counts that were added before; exact, if neither table is `reduced`."""
        self.flush()
        other.flush()
        self.events.subtract(other.events)
        for name, statistic in self.statistics.items():
            theirs: Any = other.counterpart(name)
            statistic.subtract(theirs)
        self.version = next_version()

    def rename(self, names: Mapping[int, int]) -> None:
        """Renumber cells; cells that get one number are summed."""
        self.flush()
        self.events = self.events.renamed(names)
        for statistic in self.statistics.values():
            statistic.rename(names)
        self.version = next_version()

    def dump(self, order: Sequence[int]) -> Iterator[bytes]:
        """Encode these cells as one msgpack value, in pieces; equal content gives equal bytes.

        Cells become 0, 1, 2, ... in this order, and items their names. Do not count before the last
        piece is read; dump a copy instead.
        """
        self.flush()
        return dump_content(self._content, order)

    def load(
        self, data: bytes, cells: Sequence[int], *, empty_unlike: bool = False
    ) -> frozenset[str]:
        """Fill an empty table from the parts of the output of `dump` that its plan needs.

        Args:
            data: the bytes.
            cells: the new number of each saved cell.
            empty_unlike: whether a statistic of other inputs starts empty, instead of raising.

        Returns:
            The names of missing statistics.

        Raises:
            StateVersionError: this release cannot read the version.
            UnlikeInputsError: a statistic had other inputs.
            UnlikeStateError: the ids are of the other kind.
            DamagedStateError: it is not the output of `dump`.
        """
        content = restore_content(self._content, data, cells, empty_unlike=empty_unlike)
        self.ids, self.events, missing, self.seen = content
        self.users = self._kind_of_users()
        self.version = next_version()
        return missing

    def set_statistics(self, statistics: dict[str, Statistic]) -> None:
        """Replace the content by other statistics of the same plan."""
        self.statistics = statistics
        self.groups = next(
            (statistic for statistic in statistics.values() if isinstance(statistic, Groups)), None
        )
        sums = (statistic for statistic in statistics.values() if isinstance(statistic, UserSums))
        self.user_sums = next(sums, None)
        self.audience = cast("Users | None", statistics.get("users"))
        if self.groups is not None:
            self.groups.users = self.audience
        # Consumers of the old statistics; new ones are made if this table counts.
        self._made: _Consumers | None = None

    @property
    def _consumers(self) -> _Consumers:
        if self._made is None:
            self._made = self._connected()
        return self._made

    def _connected(self) -> _Consumers:
        """The consumers, connected to the statistics that keep what they compute."""
        by_user = self._lists_by_user()
        consumers = _Consumers(by_user, {}, [], [])
        for metric in (*self.plan.events, *self.plan.events_by_user):
            values = cast("Values | None", self.statistics.get(f"events:{metric.per_list}"))
            collector = None if by_user is None else self._event_collector(metric, by_user)
            consumers.formulas.append((formula(metric, self.context), values, collector))
            consumers.read.append(metric.part_read)
        for statistic in self.statistics.values():
            if isinstance(statistic, Hits):
                statistic.listener = self._listener(statistic.options)
                statistic.collector = (
                    None if by_user is None else self._list_collector(statistic.options, by_user)
                )
            if not isinstance(statistic, Values | Groups | UserSums | Users):
                among = getattr(statistic.options, "among", "")
                consumers.statistics.setdefault(among, []).append(statistic)
        if by_user is not None and self.plan.activity and ALL_CLICKS not in self.plan.needs:
            lists = by_user.collect_lists(self._summed(ALL_CLICKS))
            consumers.statistics.setdefault("", []).append(CollectedLists(ALL_CLICKS, lists))
        return consumers

    def _among(self, batch: Batch, among: str, last: int | None = None) -> Batch:
        """The batch with only the items of a value, such as "tier:tail"; "" is all items."""
        return batch.among(self.context.group(among), last) if among else batch

    def _lists_by_user(self) -> ListsByUser | None:
        places = {metric.per_list: place for place, metric in enumerate(self.plan.summed)}
        takers = [taker for taker in (self.groups, self.user_sums) if taker is not None]
        if not takers:
            return None
        lists = ListsByUser(
            [(taker, [places[text] for text in taker.options.metrics]) for taker in takers]
        )
        for taker in takers:
            taker.pending = lists
        return lists

    def _values(self, name: str) -> Values:
        return cast("Values", self.statistics[name])

    def _listener(self, options: HitsOptions) -> Listener | None:
        def kept(kind: str, metrics: Sequence[Metric]) -> list[_Kept]:
            reading = [m for m in metrics if hits_options(m, self.plan.depth) == options]
            return [
                (m, self._values(f"{kind}:{m.text if kind == 'graded' else m.per_list}"))
                for m in reading
            ]

        graded, values = kept("graded", self.plan.graded), kept("values", self.plan.values)
        # Not a bound method: a reference cycle would keep the table until garbage collection.
        return partial(_add_values, graded, values, self.context) if graded or values else None

    def _list_collector(self, options: HitsOptions, by_user: ListsByUser) -> ListCollector | None:
        summed = self._summed(options)
        return by_user.collect_lists(summed) if summed else None

    def _summed(self, options: HitsOptions) -> list[SummedMetric]:
        """The metrics that are summed by user of lists with these options."""
        return [
            sum_metric(metric, column, self.context)
            for column, metric in enumerate(self.plan.summed)
            if metric.definition.reads in ("hits", "lists")
            and self.plan.summed_lists(metric) == options
        ]

    def _event_collector(self, metric: Metric, by_user: ListsByUser) -> EventCollector | None:
        texts = [summed_metric.per_list for summed_metric in self.plan.summed]
        if metric.per_list not in texts:
            return None
        return by_user.collect_events(texts.index(metric.per_list), largest_rounded(metric))

    def _count_lists(self, cells: IntArray) -> None:
        self._where.append(cells)
        if len(self._where) >= _MOST_WAITING:
            self._flush_counts()

    def _flush_counts(self) -> None:
        if self._where:
            cells = np.concatenate(self._where)
            self._where.clear()
            self.events.add([cells], [np.ones_like(cells)])

    def _count_values(self, values: EventValues, where: IntArray) -> None:
        columns = zip(*values, strict=True)
        for (_, kept, collector), column in zip(self._consumers.formulas, columns, strict=True):
            if kept is not None:
                kept.enqueue(where, column)
            if collector is not None:
                collector.take(*of_events(column))

    def _mapped(self, change: Callable[[Relation], Relation]) -> Table:
        self.flush()
        statistics = {name: statistic.mapped(change) for name, statistic in self.statistics.items()}
        twin = Table(self.plan, self.context, self.items, self.ids, statistics)
        twin.users, twin.seen, twin.events = self.users, self.seen, change(self.events)
        return twin

    def _new_statistics(self) -> dict[str, Statistic]:
        plan = self.plan
        made: dict[str, Statistic] = {
            name_of(options): _KINDS[type(options)](options, self.items) for options in plan.needs
        }
        made |= {
            name: Values(WEIGHTED if name in plan.weighted else ValuesOptions(), self.items)
            for name in plan.valued
        }
        attributes = dict(self.context.attributes)
        for statistic in made.values():
            if isinstance(statistic, ItemPlacements):
                statistic.kinds_of = attributes[statistic.options.by].of
        if plan.groups:
            texts = tuple(metric.per_list for metric in plan.grouped)
            options = GroupsOptions(groups=plan.groups, daily=plan.daily, metrics=texts)
            made[f"{GROUPS_PREFIX}{plan.groups}"] = Groups(options, self.items)
        if plan.user_sums:
            texts = tuple(metric.per_list for metric in plan.per_user)
            limits = UserSumsOptions(max_users=plan.user_sums, metrics=texts)
            made[f"{USER_SUMS_PREFIX}{plan.user_sums}"] = UserSums(limits, self.items)
        if plan.users:
            made["users"] = Users(UsersOptions(max_users=plan.users), self.items)
        return dict(sorted(made.items()))

    @property
    def _content(self) -> TableContent:
        inputs = inputs_by_statistic(self.plan, self.context)
        return TableContent(self.ids, self.items, self.events, self.statistics, inputs, self.seen)

    def _kind_of_users(self) -> IdKind | None:
        """The kind of the user ids counted; None without users."""
        for statistic in self.statistics.values():
            if isinstance(statistic, ItemsShown) and statistic.options.of != "items":
                (user,) = self.items.named(statistic.relations["shown"].columns[1][:1]) or (None,)
                if user is not None:
                    return "text" if isinstance(user, str) else "integer"
        return None


def _is_not_hits(statistic: Statistic) -> bool:
    return not isinstance(statistic, Hits)


def _add_values(
    graded: Sequence[_Kept], values: Sequence[_Kept], context: Context, lists: Lists
) -> None:
    if lists.is_graded:
        for metric, kept in graded:
            kept.add(lists.cell, values_of(metric, lists, context), mean_counts(metric, lists))
    for metric, kept in values:
        kept.add(lists.cell, values_of(metric, lists, context), mean_counts(metric, lists))
