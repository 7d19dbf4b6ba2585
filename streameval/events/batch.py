"""A batch: events as columns, and the operations on all columns of one length."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from operator import attrgetter, countOf
from typing import Any, ClassVar, Final, NamedTuple, Self, TypeAlias, cast

import msgspec
import numpy as np

from streameval.events.errors import InvalidEventError
from streameval.events.event import Event, Id, Interaction, Interactions, gains_of_type
from streameval.events.per_item import PerItem

# Written out, because numpy.typing takes long to import.
IntArray: TypeAlias = np.ndarray[tuple[Any, ...], np.dtype[np.int64]]
FloatArray: TypeAlias = np.ndarray[tuple[Any, ...], np.dtype[np.float64]]
BoolArray: TypeAlias = np.ndarray[tuple[Any, ...], np.dtype[np.bool_]]

OPTIONAL_COLUMNS: Final[Mapping[str, tuple[str, object]]] = {
    "positions": ("positions", None),
    "scores": ("scores", None),
    "baselines": ("baseline", None),
    "typed": ("typed", ()),
    "histories": ("history", None),
    "per_item": ("per_item", None),
    "shown_instead": ("shown_instead", None),
    "users": ("user", None),
    "times": ("ts", None),
    "event_ids": ("event_id", None),
}
"""Optional column of a batch -> field of an event, and the field's value if it is absent."""

_OPTIONAL_FIELDS: Final = attrgetter(*(field for field, _ in OPTIONAL_COLUMNS.values()))
_NO_FIELDS: Final = tuple(absent for _, absent in OPTIONAL_COLUMNS.values())


class ColumnSet(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Columns of one length: lists, arrays, ragged arrays, or sets of columns.

    A column may be None. Attributes in `constants` are not columns: they stay as they are.
    """

    constants: ClassVar[frozenset[str]] = frozenset()
    absent: ClassVar[Mapping[str, object]] = {}
    """Column -> its value in the rows of a part that lacks it; None by default."""

    def take(self, rows: IntArray) -> Self:
        """These rows, in this order."""
        return self._select(rows)

    def rows(self, start: int, stop: int) -> Self:
        """The rows start, ..., stop - 1."""
        return self._select(slice(start, stop))

    def keep(self, rows: BoolArray) -> Self:
        """The rows that a boolean mask selects."""
        return self._select(np.flatnonzero(rows))

    def joined(self, *others: Self) -> Self:
        """These rows, then those of others with the same kinds of columns."""
        if not others:
            return self
        parts = (self, *others)
        columns = {
            name: _join_column(parts, name, self.absent.get(name)) for name in self._column_names
        }
        return msgspec.structs.replace(self, **columns)

    @property
    def _column_names(self) -> Iterator[str]:
        return (name for name in self.__struct_fields__ if name not in self.constants)

    def _select(self, rows: IntArray | slice) -> Self:
        columns = {name: select(getattr(self, name), rows) for name in self._column_names}
        return msgspec.structs.replace(self, **columns)


def select(column: Any, rows: IntArray | slice) -> Any:
    """These rows of a column, in this order; None without a column.

    Example:
        >>> select("abcd", np.array([3, 0])), select("abcd", slice(1, 3))
        (['d', 'a'], 'bc')
    """
    if column is None:
        return None
    if isinstance(rows, slice):
        part = getattr(column, "rows", None)
        return column[rows] if part is None else part(rows.start, rows.stop)
    take = getattr(column, "take", None)
    return [column[row] for row in rows.tolist()] if take is None else take(rows)


def _join_column(parts: Sequence[Any], name: str, absent: object) -> Any:
    columns = [getattr(part, name) for part in parts]
    first = next((column for column in columns if column is not None), None)
    if first is None:
        return None
    if isinstance(first, np.ndarray):
        return np.concatenate(columns)
    if isinstance(first, Matches):
        alike = all(column is not None and column.search == first.search for column in columns)
        return first.joined(*columns[1:]) if alike else None
    join = getattr(first, "joined", None)
    if join is not None:
        return join(*columns[1:])
    pairs = zip(columns, parts, strict=True)
    return list(
        chain.from_iterable(
            [absent] * len(part) if column is None else column for column, part in pairs
        )
    )


class Matches(NamedTuple):
    """The hits of many lists: indices whose item is among the interactions, up to a depth.

    Attributes:
        depth: ranks that were searched.
        every: whether an item is a hit at each of its ranks, not only at the first.
        skipped: rows that were not matched; their length, interactions and hits are zero.
        interacted: distinct interactions of each row.
        interaction_count: interactions of each row, with repeats.
        length: items of each row, up to the depth.
        list_index: row of each hit, ascending.
        rank_index: its index in the list, from 0, ascending in a row.
        item: a number of each hit, equal for equal items of a row.
        gain: gain of each hit; empty if no interactions have gains.
        graded: rows whose interactions have gains, ascending.
        gains: the gains of these rows, one row after the other.
    """

    depth: int
    every: bool
    skipped: IntArray
    interacted: IntArray
    interaction_count: IntArray
    length: IntArray
    list_index: IntArray
    rank_index: IntArray
    item: IntArray
    gain: FloatArray
    graded: IntArray
    gains: FloatArray

    @property
    def search(self) -> tuple[int, bool]:
        """Depth and `every`."""
        return self.depth, self.every

    def covers(self, depth: int, every: bool) -> bool:  # noqa: FBT001  the fields of a search
        """True if this search or a narrower one finds no other hits."""
        return self.depth >= depth and self.every >= every

    def rows(self, start: int, stop: int) -> Matches:
        """The rows start, ..., stop - 1."""
        return self.take(np.arange(start, min(stop, self.length.size)))

    def take(self, rows: IntArray) -> Matches:
        """These rows, in this order."""
        list_index, hits = _spans(np.bincount(self.list_index, minlength=self.length.size), rows)
        sizes = np.zeros_like(self.interacted)
        sizes[self.graded] = self.interacted[self.graded]
        _, gains = _spans(sizes, rows)
        return self._replace(
            skipped=np.flatnonzero(np.isin(rows, self.skipped)),
            interacted=self.interacted[rows],
            interaction_count=self.interaction_count[rows],
            length=self.length[rows],
            list_index=list_index,
            rank_index=self.rank_index[hits],
            item=self.item[hits],
            gain=self.gain[hits] if self.gain.size and gains.size else self.gain[:0],
            graded=np.flatnonzero(sizes[rows]),
            gains=self.gains[gains],
        )

    def joined(self, *others: Matches) -> Matches:
        """These rows, then those of others of the same search."""
        if not others:
            return self
        parts = (self, *others)
        starts = np.cumsum([0, *(part.length.size for part in parts[:-1])]).tolist()
        columns: dict[str, Any] = {
            name: np.concatenate([getattr(part, name) for part in parts])
            for name in ("interacted", "interaction_count", "length", "rank_index", "item", "gains")
        }
        for name in ("skipped", "list_index", "graded"):
            rows = zip(parts, starts, strict=True)
            columns[name] = np.concatenate([getattr(part, name) + start for part, start in rows])
        if any(part.graded.size for part in parts):
            gains = [
                part.gain if part.gain.size else np.ones(part.list_index.size) for part in parts
            ]
            columns["gain"] = np.concatenate(gains)
        return self._replace(**columns)


def _spans(sizes: IntArray, rows: IntArray) -> tuple[IntArray, IntArray]:
    """The entries of these rows: for each its new row, and its index in the column.

    `sizes`: number of entries of each row of the column.
    """
    taken = sizes[rows]
    ends = np.cumsum(sizes)
    shifts = ends[rows] - np.cumsum(taken)
    list_indices = np.repeat(np.arange(rows.size), taken)
    return list_indices, np.arange(list_indices.size) + shifts[list_indices]


class ItemGroup(NamedTuple):
    """A group of items: those of a set, or all others.

    Attributes:
        items: ids of items.
        inside: True if the group is these items; False if it is all others.
    """

    items: frozenset[Id]
    inside: bool = True

    def indices(self, items: Sequence[Id]) -> list[int]:
        """The indices of its items in a list.

        Example:
            >>> ItemGroup(frozenset("ab")).indices(["c", "a", "b"])
            [1, 2]
        """
        members, inside = self.items, self.inside
        return [index for index, item in enumerate(items) if (item in members) is inside]

    def of(self, interactions: Interactions) -> Interactions:
        """The interactions with its items, with their gains and repeats."""
        members, inside = self.items, self.inside
        if isinstance(interactions, Mapping):
            return {
                item: gain
                for item, gain in cast("Mapping[Id, float]", interactions).items()
                if (item in members) is inside
            }
        return [item for item in interactions if (item in members) is inside]

    def part(self, event: Event, last: int | None = None) -> Event:
        """The event with only the items of the group, which keep the ranks that they were shown at.

        Baselines and histories do not change: they are not part of the list.

        `last`: the last rank retained; None for all.

        Example:
            >>> event = Event(recommendations=["a", "b", "c"], interactions=["c", "a"])
            >>> part = ItemGroup(frozenset("bc")).part(event)
            >>> part.recommendations, part.positions, part.interactions
            (['b', 'c'], [2, 3], ['c'])
        """
        indices, ranks = self.indices(event.recommendations), event.positions
        if last is not None and ranks is not None:
            indices = [index for index in indices if ranks[index] <= last]
        elif last is not None:
            indices = [index for index in indices if index < last]
        members, inside = self.items, self.inside
        return msgspec.structs.replace(
            event,
            recommendations=[event.recommendations[index] for index in indices],
            interactions=self.of(event.interactions),
            positions=[index + 1 if ranks is None else ranks[index] for index in indices],
            scores=event.scores and [event.scores[index] for index in indices],
            typed=tuple(
                interaction
                for interaction in event.typed
                if (interaction.item in members) is inside
            ),
            per_item=event.per_item
            and {
                name: [values[index] for index in indices]
                for name, values in event.per_item.items()
            },
        )


class OtherTypes(NamedTuple):
    """Types of interactions that do not count.

    Attributes:
        counted: names of the types that count.
        uncounted: type of each interaction of an event that does not count.
    """

    counted: tuple[str, ...]
    uncounted: tuple[str, ...]


class Batch(ColumnSet, frozen=True, kw_only=True, eq=True, gc=False):
    """Events as columns of one length, for statistics.

    Attributes:
        recommendations: one list of item ids per event.
        interactions: one collection of interactions per event.
        positions: one list of ranks per event; a `Ragged` if only hits and ranks are stored.
        scores: one list of scores per event.
        baselines: one list of item ids per event.
        typed: one list of interactions with their types per event.
        histories: one list of item ids per event.
        per_item: one mapping from names to values of the items per event.
        shown_instead: the list shown instead of each, None if it was shown itself.
        users: user id of each event.
        times: event time of each event, microseconds since the epoch.
        event_ids: identity of each event.
        matches: the hits of the lists; set by the kernel or the scanner, not by callers.
        hidden_losses: whether an item of each event has gains above and below 0, of which the
            largest counts; None if none has.
        other_types: of each event, where only some types of interactions count; else None.

    A column from `positions` on is None if no event has a value.

    Example:
        >>> batch = Batch(recommendations=[["a", "b"], ["c"]], interactions=[["b"], []])
        >>> len(batch.recommendations), batch.users is None
        (2, True)
    """

    absent: ClassVar[Mapping[str, object]] = {"typed": (), "hidden_losses": False}

    recommendations: Sequence[Sequence[Id]]
    interactions: Sequence[Interactions]
    positions: Sequence[Sequence[int] | None] | None = None
    scores: Sequence[Sequence[float] | None] | None = None
    baselines: Sequence[Sequence[Id] | None] | None = None
    typed: Sequence[Sequence[Interaction]] | None = None
    histories: Sequence[Sequence[Id] | None] | None = None
    per_item: Sequence[PerItem | None] | None = None
    shown_instead: Sequence[Sequence[Id] | None] | None = None
    users: Sequence[Id | None] | None = None
    times: Sequence[int | None] | IntArray | None = None
    event_ids: Sequence[str | None] | None = None
    matches: Matches | None = None
    hidden_losses: Sequence[bool] | None = None
    other_types: Sequence[OtherTypes | None] | None = None

    def of_type(self, name: str) -> Batch:
        """The batch with only the interactions of one type; the largest gain of an item counts."""
        interactions = [gains_of_type(typed, name) for typed in self.typed or [()] * len(self)]
        lists = [*self.recommendations]
        return msgspec.structs.replace(
            self, recommendations=lists, interactions=interactions, matches=None
        )

    def among(self, group: ItemGroup) -> Batch:
        """The batch with only the items of a group; see `ItemGroup.part`."""
        part = columns_of(list(map(group.part, self.events())))
        names = ("recommendations", "interactions", "positions", "scores", "typed", "per_item")
        columns: dict[str, Any] = {name: getattr(part, name) for name in names}
        return msgspec.structs.replace(self, **columns, matches=None)

    def events(self) -> Iterator[Event]:
        """The rows as events."""
        columns = {
            field: column.tolist() if isinstance(column, np.ndarray) else column
            for name, (field, _) in OPTIONAL_COLUMNS.items()
            if (column := getattr(self, name)) is not None
        }
        rows = zip(self.recommendations, self.interactions, strict=True)
        for row, (recommendations, interactions) in enumerate(rows):
            yield Event(
                recommendations=recommendations,
                interactions=interactions,
                **{field: column[row] for field, column in columns.items()},
            )

    def __len__(self) -> int:
        return len(self.recommendations)


def check_lengths(batch: Batch) -> None:
    """Refuse columns of unequal length.

    Raises:
        InvalidEventError: a column is longer or shorter than the recommendations, or not a column.
    """
    for name in ("recommendations", "interactions", *OPTIONAL_COLUMNS):
        column = getattr(batch, name)
        if column is None and name in OPTIONAL_COLUMNS:
            continue
        try:
            size = len(column)
        except TypeError:
            detail = f"{name}: a Batch has one entry for each event, found {column!r:.80}"
            raise InvalidEventError("wrong_type", detail) from None
        if size != len(batch):
            raise unequal_error(len(batch), name, size)


def unequal_error(events: int, name: str, size: int) -> InvalidEventError:
    """The error for a column of another length than the recommendations."""
    detail = f"columns of unequal length: {events} recommendations and {size} {name}"
    return InvalidEventError("wrong_type", detail)


def batch_of(matches: Matches) -> Batch:
    """A batch of which only the hits are known."""
    none: list[Any] = [()] * matches.length.size
    return Batch(recommendations=none, interactions=none, matches=matches)


def columns_of(rows: Sequence[Event]) -> Batch:
    """Events as columns; a column without any value is None."""
    columns: dict[str, Any] = {}
    if not _are_bare(rows):
        columns = {
            name: _present(list(map(attrgetter(field), rows)), absent)
            for name, (field, absent) in OPTIONAL_COLUMNS.items()
        }
    return Batch(
        recommendations=[row.recommendations for row in rows],
        interactions=[row.interactions for row in rows],
        **columns,
    )


def _are_bare(rows: Sequence[Event]) -> bool:
    """True if all events have nothing but a list and its interactions; in one pass, not nine."""
    try:
        return countOf(map(_OPTIONAL_FIELDS, rows), _NO_FIELDS) == len(rows)
    except ValueError:
        # `==` with a numpy array gives an array, which has no truth value.
        return False


def _present(column: list[Any], absent: object) -> list[Any] | None:
    try:
        return None if column.count(absent) == len(column) else column
    except ValueError:
        # `==` with a numpy array gives an array, which has no truth value.
        return column
