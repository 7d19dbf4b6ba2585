"""Blocks of events that were given one at a time, and are counted together as batches.

An event is checked when it is given. What the kernel does not take goes the way of any batch, which
converts it, or says what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
import numpy as np

from streameval.accumulator.guard import between
from streameval.accumulator.intake import NOWADAYS, checked_scores
from streameval.accumulator.plan import Plan
from streameval.events import Batch
from streameval.events.batch import batch_of
from streameval.events.errors import InvalidEventError
from streameval.events.ids import IdKind
from streameval.events.ragged import Ragged
from streameval.statistics.kernel import BLOCK, Block, matches_of
from streameval.statistics.matching import Search

Adder: TypeAlias = Callable[..., bool]
"""Appends an event, by its fields; False for one that must be counted by itself."""

_LISTS: Final = frozenset({list, tuple})
_FIXED: Final = frozenset({tuple, frozenset})
_CHANGING: Final = frozenset({list, set, dict})
_TYPE_OF_USERS: Final[Mapping[IdKind | None, type | None]] = {
    "text": str,
    "integer": int,
    None: None,
}


class Waiting(NamedTuple):
    """Events of one kernel block, and what is kept of each besides its hits.

    Attributes:
        search: how the block searches lists.
        rows: (recommendations, interactions, scores, user, time) of each; empty if nothing is kept.
    """

    search: Search
    block: Block
    rows: list[tuple[Any, ...]]


class Blocks:
    """Events that no table has counted yet.

    `plan`: of the table. Before the kind of the ids is known, and if a formula reads each event,
    none is taken.

    Attributes:
        waiting: events without positions, and events with them; empty before any are taken.
        add: append a list without other fields until its block is full; the kernel itself, where
            nothing else is kept. `add_ranked`: likewise a list with positions.

    Example:
        >>> from streameval.accumulator.plan import asked_metrics, make_plan
        >>> blocks = Blocks(make_plan(asked_metrics(["mrr@2"]), None, 9))
        >>> blocks.begin("text", None, Search(2))
        >>> blocks.add(["a", "b"], ["b"]), blocks.add(["a", 7], [])
        (True, False)
        >>> [batch.matches.place.tolist() for batch in blocks.take()], len(blocks)
        ([[1]], 0)
    """

    def __init__(self, plan: Plan) -> None:
        self._can_wait, self._keeps_lists = not plan.has_formulas, plan.reads_lists
        self._keeps_rows = plan.reads_lists or plan.reads_users or plan.shown is not None
        self._shown = slice(None) if plan.reads_lists else plan.shown
        self._user_type: type | None = None
        self.waiting: tuple[Waiting, ...] = ()
        self.add: Adder = add_nothing
        self.add_ranked: Adder = add_nothing

    def begin(self, kind: IdKind | None, users: IdKind | None, search: Search) -> None:
        """Take events with ids and users of these kinds, and search their lists so."""
        self._user_type = _TYPE_OF_USERS[users]
        if self.waiting or kind is None or not self._can_wait:
            return
        # Of lists with positions, an item may be a hit at any of its places.
        both = (search, Search(every=True))
        self.waiting = tuple(Waiting(each, Block(kind, *each), []) for each in both)
        plain, ranked = (waiting.block.add for waiting in self.waiting)
        self.add = self.add_event if self._keeps_rows else plain
        self.add_ranked = self.add_event if self._keeps_rows else ranked

    def __len__(self) -> int:
        return sum(len(waiting.block) for waiting in self.waiting)

    @property
    def are_full(self) -> bool:
        """Whether one of the blocks takes no more."""
        return any(len(waiting.block) >= BLOCK for waiting in self.waiting)

    def add_event(
        self,
        recommendations: Any,
        interactions: Any,
        positions: Any = None,
        scores: Any = None,
        user: Any = None,
        ts: Any = None,
    ) -> bool:
        """`add` for an event that may have other fields."""
        is_user = user is None or (type(user) is self._user_type and user != "")
        is_time = ts is None or (type(ts) is int and NOWADAYS[0] <= ts < NOWADAYS[1])
        if not (self.waiting and is_user and is_time):
            return False
        if scores is not None:
            try:
                scores = [*(checked_scores(recommendations, scores) or ())]
            except (InvalidEventError, TypeError):
                return False
        waiting = self.waiting[positions is not None]
        ranks = () if positions is None else (positions,)
        if not self._keeps_rows:
            return waiting.block.add(recommendations, interactions, *ranks)
        if len(waiting.rows) != len(waiting.block):
            raise between()
        # Copies, because a caller may change what was counted.
        shown: Sequence[Any] | None = ()
        if self._shown is not None:
            shown = _kept(recommendations, slice(None) if ranks else self._shown)
        acts = _copy(interactions) if self._keeps_lists else ()
        if shown is None or acts is None:
            return False
        added = waiting.block.add(recommendations, interactions, *ranks)
        if added:
            waiting.rows.append((shown, acts, scores, user, ts))
        return added

    def take(self) -> Iterator[Batch]:
        """The events taken since the last call."""
        for waiting in self.waiting:
            if len(waiting.block):
                yield self._batch(waiting)

    def _batch(self, waiting: Waiting) -> Batch:
        search, block, rows = waiting
        if self._keeps_rows and len(rows) != len(block):
            raise between()
        *hits, ranks = block.take()
        matches = matches_of(tuple(hits), *search)
        columns: dict[str, Any] = {}
        if self._keeps_rows:
            names = ("recommendations", "interactions", "scores", "users", "times")
            values = map(list, zip(*rows, strict=True))
            columns = dict(zip(names, map(_column, values), strict=True))
            rows.clear()
        if waiting is self.waiting[1]:
            lists = Ragged.of_lengths(np.frombuffer(ranks, np.int64), matches.length)
            columns["positions"] = lists.lists() if self._keeps_rows else lists
        return msgspec.structs.replace(batch_of(matches), **columns)


def _column(values: list[Any]) -> list[Any] | None:
    return None if values.count(None) == len(values) else values


def _kept(recommendations: Any, part: slice) -> Sequence[Any] | None:
    """A part of a list, for later; None if it must be converted first."""
    return recommendations[part] if type(recommendations) in _LISTS else None


def _copy(interactions: Any) -> Any:
    """The interactions, for later; None if they must be converted first."""
    if type(interactions) in _FIXED:
        return interactions
    return interactions.copy() if type(interactions) in _CHANGING else None


def frozen(event: Batch) -> Batch:
    """A batch of one event whose caller may change its lists later."""
    columns = {name: _frozen(getattr(event, name)) for name in event.__struct_fields__}
    return msgspec.structs.replace(event, **columns)


def _frozen(value: Any) -> Any:
    """A copy of lists, sets and dicts with what they hold."""
    if type(value) is dict and not _CHANGING.isdisjoint(map(type, value.values())):
        return {key: _frozen(held) for key, held in value.items()}
    if type(value) is list and not _CHANGING.isdisjoint(map(type, value)):
        return [*map(_frozen, value)]
    return value.copy() if type(value) in _CHANGING else value


def add_nothing(*_: Any) -> bool:
    """Append no event."""
    return False
