"""The statistics of many cells, counted, merged and saved together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, cast

import numpy as np
from msgspec.structs import replace

from streameval.accumulator.formulas import (
    EventValues,
    Formula,
    formula,
    largest_rounded,
    list_values,
    mean_counts,
    of_events,
    sum_metric,
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
from streameval.events import Batch, Event
from streameval.events.batch import ItemGroup
from streameval.events.errors import UnlikeStateError
from streameval.events.extras import LazyModule
from streameval.events.ids import IdKind
from streameval.events.ragged import IdColumn, Ragged
from streameval.statistics.arrays import IntArray
from streameval.statistics.distributions import Values, ValuesOptions
from streameval.statistics.hits import Hits, explicit_ranks_kept
from streameval.statistics.lists import HitsOptions, lists_of
from streameval.statistics.matching import Search, matched
from streameval.statistics.options import (
    ExposuresOptions,
    GroupsOptions,
    PairingsOptions,
    PlacementsOptions,
    RankSumsOptions,
    ScoresOptions,
    UsersOptions,
    UserSumsOptions,
)
from streameval.statistics.relation import Relation, Shape, next_version
from streameval.statistics.statistic import Cells, Statistic, cell_of_each
from streameval.statistics.vocabulary import Items

if TYPE_CHECKING:
    from streameval.accumulator import codec
    from streameval.statistics import exposures, pairings, placements, scores
    from streameval.statistics import groups as _groups
    from streameval.statistics import terms as _terms
    from streameval.statistics import user_sums as _user_sums
    from streameval.statistics import users as _users
    from streameval.statistics.groups import Groups
    from streameval.statistics.terms import SummedMetric, Terms
    from streameval.statistics.user_sums import UserSums
    from streameval.statistics.users import ListUsers, Users
else:
    # A loop that only counts hits needs none of it.
    codec = LazyModule("streameval.accumulator.codec")
    exposures, pairings, placements, scores, _groups, _terms, _user_sums, _users = (
        LazyModule(f"streameval.statistics.{name}")
        for name in (
            *("exposures", "pairings", "placements", "scores"),
            *("groups", "terms", "user_sums", "users"),
        )
    )

_KINDS: Final[Mapping[type, Callable[[], type[Statistic]]]] = {
    HitsOptions: lambda: Hits,
    ExposuresOptions: lambda: exposures.ItemsShown,
    PairingsOptions: lambda: pairings.ItemPairings,
    PlacementsOptions: lambda: placements.ItemPlacements,
    ScoresOptions: lambda: scores.ScoredItems,
    RankSumsOptions: lambda: scores.RankSumsOfLists,
    ValuesOptions: lambda: Values,
    GroupsOptions: lambda: _groups.Groups,
    UserSumsOptions: lambda: _user_sums.UserSums,
    UsersOptions: lambda: _users.Users,
}
_MOST_LISTS: Final = 16_384
_MOST_IDS: Final = 4_096
"""Lists that wait to be counted together: without their ids, and with them, which take memory."""

_MOST_ROWS: Final = 1_048_576
"""Rows that may be added before cells that are too large are reduced, also if nobody reads them."""

_READ_BY_FORMULAS: Final = dict.fromkeys(
    ("baselines", "histories", "per_item", "shown_instead", "times")
)
"""Columns that nothing else reads, or that are passed on apart."""

_Kept: TypeAlias = tuple[Metric, str]
"""A metric, and the name of the statistic that keeps its values."""


class _Waiting(NamedTuple):
    """Events that are not counted yet.

    Attributes:
        times: event time of each, microseconds; None without event time.
        values: those of metrics of events.
    """

    batch: Batch
    cells: IntArray
    times: IntArray | None
    values: EventValues

    @property
    def kind(self) -> tuple[object, ...]:
        """Equal for events whose columns can be joined."""
        matches, ranks = self.batch.matches, cast("object", self.batch.positions)
        search = None if matches is None else matches.search
        lists = type(self.batch.recommendations), type(self.batch.interactions)
        return search, *lists, isinstance(ranks, Ragged), self.times is None

    def joined(self, *others: _Waiting) -> _Waiting:
        """These events, then others of this kind."""
        parts = (self, *others)
        batch = self.batch.joined(*(part.batch for part in others))
        times = None if self.times is None else np.concatenate([part.times for part in parts])
        cells = np.concatenate([part.cells for part in parts])
        return _Waiting(batch, cells, times, [*chain.from_iterable(part.values for part in parts)])


class _Lists(NamedTuple):
    """What is counted of lists with the same options.

    Attributes:
        hits: name of the statistic; None if only sums by user are.
        graded: metrics whose values are kept of lists with gains.
        values: metrics whose values are kept of all lists.
        summed: metrics that are summed by user.
    """

    hits: str | None
    graded: list[_Kept]
    values: list[_Kept]
    summed: list[SummedMetric]


class Table:
    """One relation of integers per statistic: (cell, key columns...) -> counts.

    A cell is an integer from 0 up to 2^62 that the caller chooses, for example a slice of a pane.
    An Accumulator has only cell 0. The content is a function of the events counted in each cell.

    `items`: a vocabulary shared with other tables, so that adding them needs no translation.
    `ids`: the kind of ids counted; None before the first id.
    `statistics`: its content; new ones by default.

    Events wait, and are then counted together: a batch becomes lists with their hits, and these
    rows of relations. What is read here has counted them.

    Attributes:
        seen: input with a version -> digests of the contents that events were counted with.
        users: the kind of user ids; None before the first one.
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
        self._events = Relation(Shape(keys=1))
        self._waiting: list[_Waiting] = []
        self._lists = self._flushed = self._rows = 0
        self.set_statistics(self._new_statistics() if statistics is None else dict(statistics))

    @property
    def statistics(self) -> Mapping[str, Statistic]:
        """The statistics by name, in the order of the names."""
        self._count_waiting()
        return self._statistics

    @property
    def events(self) -> Relation:
        """(cell) -> events."""
        self._count_waiting()
        return self._events

    @property
    def groups(self) -> Groups | None:
        """Sums by user group, if the plan has any."""
        return cast("Groups | None", self.statistics.get(self.plan.groups_name))

    @property
    def user_sums(self) -> UserSums | None:
        """Sums by user, if the plan has any."""
        return cast("UserSums | None", self.statistics.get(self.plan.user_sums_name))

    @property
    def pre_period(self) -> UserSums | None:
        """Sums by user before an experiment, if the plan has them."""
        period = self.plan.pre_period
        return cast("UserSums | None", self.statistics.get(period.name if period else ""))

    @property
    def audience(self) -> Users | None:
        """The users of each cell, if the plan has them."""
        return cast("Users | None", self.statistics.get("users"))

    def count(
        self,
        batch: Batch,
        cells: Cells = 0,
        times: IntArray | None = None,
        values: EventValues | None = None,
        *,
        lent: bool = False,
    ) -> None:
        """Count events.

        Args:
            batch: the events.
            cells: the cell of each.
            times: event time of each, microseconds since the epoch; by default those of the batch.
            values: the `event_values` of the batch, if they are known.
            lent: whether the caller may change the lists afterwards.
        """
        if not len(batch):
            return
        # First, because a formula may raise, and then nothing may be counted.
        values = self.event_values(batch) if values is None else values
        batch = matched(batch, self.search)
        if times is None and self.plan.reads_users:
            times = _users.times_of(batch)
        self.seen = united(self.seen, digests_of(self.context))
        where = cell_of_each(cells, len(batch))
        if self.reads_lists:
            kept = replace(batch, **_READ_BY_FORMULAS)
        else:
            # Items shown are counted at once, so that the next batch gets the memory of their ids.
            for name in self._counted.get("", ({}, ()))[1]:
                self._statistics[name].count(batch, where)
            none: list[Any] = [()] * len(batch)
            kept = Batch(
                recommendations=none,
                interactions=none,
                positions=batch.positions,
                users=batch.users,
                event_ids=batch.event_ids,
                matches=batch.matches,
            )
        self._waiting.append(_Waiting(kept, where, times, values))
        self._lists += len(batch)
        # Arrays of a caller may be reused, too.
        columns = (kept.recommendations, kept.interactions)
        lent = lent or any(isinstance(lists, IdColumn) for lists in columns)
        holds = self.reads_lists or self.plan.reads_users or batch.positions is not None
        if (lent and holds) or self._lists >= (_MOST_IDS if self.reads_lists else _MOST_LISTS):
            self._count_waiting()
        self.version = next_version()

    def event_values(self, batch: Batch) -> EventValues:
        """For each event, the value of each metric of events; raises what a formula raises."""
        return [self.values_of(event) for event in batch.events()] if self._formulas else []

    def values_of(self, event: Event) -> Sequence[float | Sequence[float] | None]:
        """The value of an event by each metric of events; likewise."""
        parts = {
            part: event if group is None else group.part(event, part[1])
            for part, group in self._parts_read.items()
        }
        return [value(parts[part]) for value, part in self._formulas]

    def flush(self) -> None:
        """Count the events that wait, and reduce cells that are too large."""
        if self._flushed != self.version:
            self._count_waiting()
            self._reduce()
            self._flushed = self.version

    @cached_property
    def reads_lists(self) -> bool:
        """Whether a statistic reads lists, which wait with the events."""
        return self.plan.reads_lists

    @cached_property
    def search(self) -> Search:
        """How lists are searched for the hits that the statistics read."""
        return self.plan.search

    @property
    def cells(self) -> IntArray:
        """The cells with events, ascending."""
        return self.events.cells

    def lists(self, cells: IntArray) -> IntArray:
        """Number of events of each cell."""
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
        self._events.merge(*(other.events for other in others))
        for name, statistic in self._statistics.items():
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
        self._events.subtract(other.events)
        for name, statistic in self._statistics.items():
            theirs: Any = other.counterpart(name)
            statistic.subtract(theirs)
        self.version = next_version()

    def rename(self, names: Mapping[int, int]) -> None:
        """Renumber cells; cells that get one number are summed."""
        self.flush()
        self._events = self._events.renamed(names)
        for statistic in self.statistics.values():
            statistic.rename(names)
        self.version = next_version()

    def dump(self, order: Sequence[int]) -> Iterator[bytes]:
        """Encode these cells as one msgpack value, in pieces; equal content gives equal bytes.

        Cells become 0, 1, 2, ... in this order, and items their names. Do not count before the last
        piece is read; dump a copy instead.
        """
        self.flush()
        return codec.dump_content(self._content, order)

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
        restored = codec.restore_content(self._content, data, cells, empty_unlike=empty_unlike)
        self.ids, self._events, missing, self.seen = restored
        self.users = None
        for statistic in self.statistics.values():
            options = statistic.options
            if isinstance(options, ExposuresOptions) and options.of != "items":
                for user in self.items.named(statistic.relations["shown"].columns[1][:1]):
                    self.users = "text" if isinstance(user, str) else "integer"
        self.version = next_version()
        return missing

    def set_statistics(
        self, statistics: Mapping[str, Statistic], events: Relation | None = None
    ) -> None:
        """Replace the content by other statistics of the same plan, and the events if given."""
        self._statistics, self._flushed = dict(statistics), 0
        self._events = self._events if events is None else events

    def _count_waiting(self) -> None:
        """Count the events that wait, those of a kind together."""
        if not self._waiting:
            return
        waiting, self._waiting, self._lists = self._waiting, [], 0
        by_kind: defaultdict[tuple[object, ...], list[_Waiting]] = defaultdict(list)
        for events in waiting:
            by_kind[events.kind].append(events)
        for first, *others in by_kind.values():
            self._count_rows(first.joined(*others) if others else first)
        if self._size > self._rows + _MOST_ROWS:
            self._reduce()

    @property
    def _size(self) -> int:
        """Number of rows of all statistics."""
        relations = (each.relations.values() for each in self._statistics.values())
        return sum(relation.size for relation in chain.from_iterable(relations))

    def _reduce(self) -> None:
        """Reduce the cells that are too large."""
        for statistic in self._statistics.values():
            statistic.reduce()
        self._rows = self._size

    def _count_rows(self, events: _Waiting) -> None:
        """Add the rows of events to every statistic."""
        batch, cells, times, values = events
        self._events.add([cells], [np.ones_like(cells)])
        terms = self._count_values(values, cells) if self._formulas else []
        for among, (listed, others) in self._counted.items():
            part = batch.among(self.context.group(among)) if among else batch
            part = matched(part, self.plan.search_among(among))
            for options, lists in listed.items():
                terms += self._count_lists(options, lists, part, cells)
            for name in others if self.reads_lists else ():
                self._statistics[name].count(part, cells)
        if self.plan.reads_users:
            self._count_users(_users.users_of(batch, cells, times), terms)

    def _count_values(self, values: EventValues, cells: IntArray) -> list[Terms]:
        """Count the values of metrics of events; the terms that they add to sums by user."""
        terms, every = [], np.arange(cells.size)
        for metric, column in zip(self._event_metrics, zip(*values, strict=True), strict=True):
            kept = cast("Values | None", self._statistics.get(f"events:{metric.per_list}"))
            if kept is not None:
                kept.add_events(cells, column)
            if metric.per_list in self._column_of:
                sums = map(np.array, of_events(column))
                number = self._column_of[metric.per_list]
                terms.append(_terms.Terms(every, number, largest_rounded(metric), *sums))
        return terms

    def _count_lists(
        self, options: HitsOptions, counted: _Lists, part: Batch, cells: IntArray
    ) -> Iterator[Terms]:
        """Count the lists of a batch and their values; the terms that they add to sums by user."""
        hits = cast("Hits | None", self._statistics.get(counted.hits or ""))
        if part.positions is not None:
            rows, ranks = explicit_ranks_kept(options, part)
            if hits is not None:
                hits.add_ranks(cells[rows], ranks)
            for summed in counted.summed:
                at_ranks = np.zeros(ranks.size), summed.items(ranks)
                yield _terms.Terms(rows, summed.column, summed.largest, *at_ranks)
        for rows, lists in lists_of(options, part, cells):
            if hits is not None:
                hits.add(lists)
            for metric, name in (*(counted.graded if lists.is_graded else ()), *counted.values):
                values = list_values(metric, lists, self.context)
                kept = cast("Values", self._statistics[name])
                kept.add(lists.cell, values, mean_counts(metric, lists))
            for summed in counted.summed:
                yield _terms.Terms(rows, summed.column, summed.largest, *summed.values(lists))

    def _count_users(self, users: ListUsers, terms: Sequence[Terms]) -> None:
        """Add lists with their users to the audience, and their terms to the sums by user."""
        audience = cast("Users | None", self._statistics.get("users"))
        if audience is not None:
            who = slice(None) if users.named.all() else users.named
            audience.add(users.cells[who], users.hashes[who], users.days[who])
        for statistic in self._statistics.values():
            if isinstance(statistic, _groups.Groups | _user_sums.UserSums):
                columns = [self._column_of[text] for text in statistic.options.metrics]
                statistic.take(users, terms, columns)

    @cached_property
    def _column_of(self) -> Mapping[str, int]:
        """Metric that is summed by user -> the column of its terms."""
        return {metric.per_list: column for column, metric in enumerate(self.plan.summed)}

    @cached_property
    def _event_metrics(self) -> Sequence[Metric]:
        return (*self.plan.events, *self.plan.events_by_user)

    @cached_property
    def _parts_read(self) -> Mapping[tuple[str, int | None], ItemGroup | None]:
        """Part of each list that a metric of events reads -> its items; None for the whole list."""
        parts = (metric.part_read for metric in self._event_metrics)
        return {part: self.context.group(part[0]) if part[0] else None for part in parts}

    @cached_property
    def _formulas(self) -> Sequence[tuple[Formula, tuple[str, int | None]]]:
        """The formula of each metric of events, and the part of each list that it reads."""
        metrics = self._event_metrics
        return [(formula(metric, self.context), metric.part_read) for metric in metrics]

    @cached_property
    def _counted(self) -> Mapping[str, tuple[Mapping[HitsOptions, _Lists], Sequence[str]]]:
        """Which items ("" is all) -> what is counted of their lists, and the other statistics."""
        counted: dict[str, tuple[dict[HitsOptions, _Lists], list[str]]] = {}
        for options in self.plan.needs:
            listed, others = counted.setdefault(getattr(options, "among", ""), ({}, []))
            if isinstance(options, HitsOptions):
                listed[options] = self._lists_with(options)
            else:
                others.append(name_of(options))
        if self.plan.activity:
            listed, _ = counted.setdefault("", ({}, []))
            listed.setdefault(ALL_CLICKS, self._lists_with(ALL_CLICKS))
        return counted

    def _lists_with(self, options: HitsOptions) -> _Lists:
        plan, name = self.plan, name_of(options)

        def reading(metrics: Sequence[Metric]) -> list[Metric]:
            return [m for m in metrics if hits_options(m, plan.depth) == options]

        return _Lists(
            name if options in plan.needs else None,
            [(metric, f"graded:{metric.text}") for metric in reading(plan.graded)],
            [(metric, f"values:{metric.per_list}") for metric in reading(plan.values)],
            [
                sum_metric(metric, column, self.context)
                for column, metric in enumerate(plan.summed)
                if metric.definition.reads in ("hits", "lists")
                and plan.summed_lists(metric) == options
            ],
        )

    def _mapped(self, change: Callable[[Relation], Relation]) -> Table:
        self.flush()
        statistics = {name: statistic.mapped(change) for name, statistic in self.statistics.items()}
        twin = Table(self.plan, self.context, self.items, self.ids, statistics)
        twin.users, twin.seen, twin._events = self.users, self.seen, change(self._events)
        return twin

    def _new_statistics(self) -> dict[str, Statistic]:
        statistics = {}
        for name, options in self.plan.statistics.items():
            made: Any = _KINDS[type(options)]()(options, self.items)
            if isinstance(options, PlacementsOptions):
                made.kinds_of = dict(self.context.attributes)[options.by].of
            statistics[name] = made
        return statistics

    @property
    def _content(self) -> codec.TableContent:
        inputs = inputs_by_statistic(self.plan, self.context)
        return codec.TableContent(
            self.ids, self.items, self.events, self.statistics, inputs, self.seen
        )
