"""An event: a list that was shown, and the interactions with it."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from operator import attrgetter
from typing import Any, Final, TypeAlias

import msgspec

from streameval.errors import InvalidEventError

Id: TypeAlias = str | int
"""An item or user id; one kind throughout an Accumulator."""

Interactions: TypeAlias = (
    Sequence[Id] | AbstractSet[Id] | Mapping[Id, float] | Mapping[str, float] | Mapping[int, float]
)
"""Items interacted with (each counts 1), or item -> gain (relevant where the gain is above 0)."""


def plain(item: Id) -> Id:
    """The id itself, without a subtype that numpy or an enumeration gave it.

    Raises:
        InvalidEventError: it is neither a string nor an integer.

    Example:
        >>> import numpy as np
        >>> plain(np.int64(5))
        5
    """
    if isinstance(item, str):
        return str(item)
    try:
        return operator.index(item)
    except TypeError:
        detail = f"an item id is {item!r:.80}; ids are strings or integers"
        raise InvalidEventError("wrong_type", detail) from None


LARGEST_RANK = 2**31 - 1
"""No position, cut-off or list goes beyond it, so that tables of ranks fit into integers."""


LARGEST_GAIN = 2.0**1000
"""No gain goes beyond it, above or below 0, so that sums of gains stay finite."""


class Interaction(msgspec.Struct, frozen=True, gc=False):
    """One interaction as it was logged: item, gain and type.

    Attributes:
        item: the item's id.
        gain: any number up to 2^1000; 1 unless said otherwise.
        type: for example "click" or "purchase"; None where the stream has no types.
    """

    item: Id
    gain: float = 1.0
    type: str | None = None


class Event(msgspec.Struct, kw_only=True, gc=False, repr_omit_defaults=True):
    """One list with its outcome.

    Attributes:
        recommendations: item ids as shown, rank 1 first; repeats stay as they came.
        interactions: what the user did: item ids, or item id -> gain.
        user: who saw the list; None where unknown.
        ts: event time in microseconds since the epoch; None where the stream has no time.
        labels: values of the configured labels, in their order.
        positions: rank (from 1) at which each item stood; None means 1, 2, 3, ...
        scores: the recommender's score of each item; never reorders the list.
        typed: the interactions with their types; empty where the stream has none.
        baseline: what another recommender would have shown; None where unknown.
        history: items that the user had met before this list; None where unknown.
        event_id: identity of the event; None where the stream has none.
    """

    recommendations: Sequence[Id]
    interactions: Interactions
    user: Id | None = None
    ts: int | None = None
    labels: tuple[str, ...] = ()
    positions: Sequence[int] | None = None
    scores: Sequence[float] | None = None
    typed: Sequence[Interaction] = ()
    baseline: Sequence[Id] | None = None
    history: Sequence[Id] | None = None
    event_id: str | None = None


BESIDE: Final[Mapping[str, tuple[str, object]]] = {
    "positions": ("positions", None),
    "scores": ("scores", None),
    "baselines": ("baseline", None),
    "typed": ("typed", ()),
    "histories": ("history", None),
    "users": ("user", None),
    "times": ("ts", None),
    "event_ids": ("event_id", None),
}
"""Columns that a batch may lack -> their field of an event, and what it is without a value."""


class Batch(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Events as columns, all of one length; what statistics read.

    Attributes:
        recommendations: one list of item ids per event.
        interactions: one collection of interactions per event.
        positions: one list of ranks per event, or None where no event has any.
        scores: one list of scores per event, or None where no event has any.
        baselines: one list of item ids per event, or None where no event has any.
        typed: one list of interactions with their types per event, or None where no event has any.
        histories: one list of item ids per event, or None where no event has any.
        users: who saw each list, or None where no event says so.
        times: event time of each, microseconds since the epoch, or None where no event has any.
        event_ids: identity of each event, or None where no event has any.
    """

    recommendations: Sequence[Sequence[Id]]
    interactions: Sequence[Interactions]
    positions: Sequence[Sequence[int] | None] | None = None
    scores: Sequence[Sequence[float] | None] | None = None
    baselines: Sequence[Sequence[Id] | None] | None = None
    typed: Sequence[Sequence[Interaction]] | None = None
    histories: Sequence[Sequence[Id] | None] | None = None
    users: Sequence[Id | None] | None = None
    times: Sequence[int | None] | None = None
    event_ids: Sequence[str | None] | None = None

    def of_type(self, name: str) -> Batch:
        """The batch with interactions of one type only; the largest gain of an item counts."""
        found = [
            largest_gains((each.item, each.gain) for each in typed if each.type == name)
            for typed in self.typed or [()] * len(self)
        ]
        return msgspec.structs.replace(self, interactions=found)

    def take(self, rows: Sequence[int]) -> Batch:
        """These events, in this order; a column without values becomes None."""
        return Batch(
            recommendations=[self.recommendations[row] for row in rows],
            interactions=[self.interactions[row] for row in rows],
            **{
                name: _taken(getattr(self, name), rows, absent)
                for name, (_, absent) in BESIDE.items()
            },
        )

    def events(self) -> Iterator[Event]:
        """The rows, as events."""
        known = [
            (field, column)
            for name, (field, _) in BESIDE.items()
            if (column := getattr(self, name)) is not None
        ]
        for row, recommendations in enumerate(self.recommendations):
            yield Event(
                recommendations=recommendations,
                interactions=self.interactions[row],
                **{field: column[row] for field, column in known},
            )

    def __len__(self) -> int:
        return len(self.recommendations)


def columns_of(rows: Sequence[Event]) -> Batch:
    """Events as columns; a column that no event has is None."""
    return Batch(
        recommendations=[row.recommendations for row in rows],
        interactions=[row.interactions for row in rows],
        **{
            name: _present(list(map(attrgetter(field), rows)), absent)
            for name, (field, absent) in BESIDE.items()
        },
    )


def largest_gains(gains: Iterable[tuple[Id, float]]) -> dict[Id, float]:
    """Item -> the largest of its gains."""
    largest: dict[Id, float] = {}
    for item, gain in gains:
        largest[item] = max(gain, largest.get(item, gain))
    return largest


def _taken(column: Sequence[Any] | None, rows: Sequence[int], absent: object) -> Any:
    if column is None:
        return None
    taken = [column[row] for row in rows]
    return taken if any(each != absent for each in taken) else None


def _present(column: list[Any], absent: object) -> list[Any] | None:
    try:
        return None if column.count(absent) == len(column) else column
    except ValueError:
        # An array is compared entry by entry, and has no truth.
        return column
