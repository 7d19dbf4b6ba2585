"""Blocks of events that were counted one at a time, and reach the table as batches.

The kernel checks ids while it finds the hits. What it does not take must be checked, and perhaps
converted, first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
import numpy as np

from streameval.accumulator.formulas import EventValues
from streameval.accumulator.intake import NOWADAYS, checked_scores
from streameval.accumulator.plan import Plan
from streameval.events import Batch, Event
from streameval.events.batch import batch_of
from streameval.events.errors import HalfCountedError, InvalidEventError
from streameval.events.ids import IdKind
from streameval.events.ragged import Ragged
from streameval.statistics.kernel import Block, matches_of
from streameval.statistics.matching import Search

Adder: TypeAlias = Callable[..., bool]
"""Appends an event, by its fields; False for one that must be counted by itself."""

_LISTS: Final = frozenset({list, tuple})
_FIXED: Final = frozenset({tuple, frozenset})
_CHANGING: Final = frozenset({list, set, dict})
_NO_IDS: Final = ((), ())
_TYPE_OF_USERS: Final[Mapping[IdKind | None, type | None]] = {
    "text": str,
    "integer": int,
    None: None,
}


class Waiting(NamedTuple):
    """Events of one kernel block, and what is kept of each besides its hits.

    Attributes:
        search: how the block searches lists.
        rows: ((recommendations, interactions), scores, user, time, typed interactions, values of
            formulas) of each; empty if nothing is kept.
    """

    search: Search
    block: Block
    rows: list[tuple[Any, ...]]


class Blocks:
    """Events that no table has counted yet.

    `plan`: of the table.

    Attributes:
        waiting: events without positions, and events with them.

    Example:
        >>> from streameval.accumulator.plan import asked_metrics, make_plan
        >>> blocks = Blocks(make_plan(asked_metrics(["mrr@2"]), None, 9))
        >>> blocks.begin("text", None)
        >>> blocks.add(["a", "b"], ["b"]), blocks.add(["a", 7], [])
        (True, False)
        >>> [batch.matches.rank_index.tolist() for batch, _ in blocks.take()], len(blocks)
        ([[1]], 0)
    """

    def __init__(self, plan: Plan) -> None:
        # Of lists with positions, an item may be a hit at any of its places.
        self._searches = plan.search, Search(every=True)
        self._has_formulas, self._keeps_lists = bool(plan.formulas), plan.reads_lists
        is_read = plan.reads_lists or plan.reads_users or plan.recommended is not None
        self._keeps_rows = is_read or self._has_formulas
        self._recommended = slice(None) if plan.reads_lists else plan.recommended
        self._keeps_ids = self._keeps_lists or self._recommended is not None
        self._kind: IdKind | None = None
        self.waiting: tuple[Waiting, ...] = ()

    def begin(self, kind: IdKind | None, users: IdKind | None) -> None:
        """Take events with ids and users of these kinds; None: of no kind yet, so without ids."""
        self._user_type = _TYPE_OF_USERS[users]
        if self.waiting and kind == self._kind:
            return
        self._kind = kind
        self.waiting = tuple(
            Waiting(search, Block(kind or "text", *search), []) for search in self._searches
        )

    @property
    def add(self) -> Adder:
        """Append a list without other fields; False if the block is full, or it must be checked.

        It is the kernel itself where nothing else is kept.
        """
        return self.add_event if self._keeps_rows else self.waiting[0].block.add

    @property
    def add_ranked(self) -> Adder:
        """`add` for a list with positions."""
        return self.add_event if self._keeps_rows else self.waiting[1].block.add

    def __len__(self) -> int:
        plain, ranked = self.waiting
        return len(plain.block) + len(ranked.block)

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
        if user is not None and (type(user) is not self._user_type or user == ""):
            return False
        if ts is not None and not (type(ts) is int and NOWADAYS[0] <= ts < NOWADAYS[1]):
            return False
        if scores is not None:
            try:
                scores = [*(checked_scores(recommendations, scores) or ())]
            except (InvalidEventError, TypeError):
                return False
        _, block, rows = self.waiting[positions is not None]
        if not self._keeps_rows:
            return block.add(recommendations, interactions, positions)
        ids = self._copied(recommendations, interactions, positions) if self._keeps_ids else _NO_IDS
        if len(rows) != len(block):
            raise interrupted()
        if ids is None or not block.add(recommendations, interactions, positions):
            return False
        rows.append((ids, scores, user, ts, (), None))
        return True

    def add_checked(self, event: Event, values: Sequence[Any]) -> bool:
        """Append an event that is checked, with the values of its formulas."""
        recommendations, interactions = event.recommendations, event.interactions
        positions = event.positions
        _, block, rows = self.waiting[positions is not None]
        ids = self._copied(recommendations, interactions, positions) if self._keeps_ids else _NO_IDS
        if self._keeps_rows and len(rows) != len(block):
            raise interrupted()
        if ids is None or not block.add(recommendations, interactions, positions, True):  # noqa: FBT003  no order by name
            return False
        if self._keeps_rows:
            scores = None if event.scores is None else [*event.scores]
            rows.append((ids, scores, event.user, event.ts, event.typed, values))
        return True

    def _copied(
        self, recommendations: Any, interactions: Any, positions: Any
    ) -> tuple[Any, Any] | None:
        """The ids that are kept, which a caller may change; None if they must be converted."""
        if self._recommended is not None and type(recommendations) not in _LISTS:
            return None
        items: Any = ()
        if self._recommended is not None:
            part = slice(None) if positions is not None else self._recommended
            items = recommendations[part]
        if not self._keeps_lists or type(interactions) in _FIXED:
            return items, interactions if self._keeps_lists else ()
        return (items, interactions.copy()) if type(interactions) in _CHANGING else None

    def check_rows(self) -> None:
        """Refuse to take the events while one is half appended.

        Raises:
            HalfCountedError: a signal handler or an interrupt came in between.
        """
        if self._keeps_rows and any(len(rows) != len(block) for _, block, rows in self.waiting):
            raise interrupted()

    def take(self) -> Iterator[tuple[Batch, EventValues]]:
        """The events taken since the last call, and the values of formulas for each."""
        for waiting in self.waiting:
            if len(waiting.block):
                yield self._batch(waiting)

    def _batch(self, waiting: Waiting) -> tuple[Batch, EventValues]:
        search, block, rows = waiting
        *hits, ranks = block.take()
        matches = matches_of(tuple(hits), *search)
        columns: dict[str, Any] = {}
        values: EventValues = ()
        if self._keeps_rows:
            ids, *fields, of_formulas = zip(*rows, strict=True)
            columns["recommendations"], columns["interactions"] = map(list, zip(*ids, strict=True))
            for name, column in zip(("scores", "users", "times", "typed"), fields, strict=True):
                absent = column.count(Batch.absent.get(name)) == len(column)
                columns[name] = None if absent else list(column)
            values = of_formulas if self._has_formulas else ()
            rows.clear()
        if waiting is self.waiting[1]:
            lists = Ragged.of_lengths(np.frombuffer(ranks, np.int64), matches.length)
            columns["positions"] = lists.lists() if self._keeps_rows else lists
        return msgspec.structs.replace(batch_of(matches), **columns), values


def add_nothing(*_: Any) -> bool:
    """Append no event."""
    return False


def half_counted(problem: str, remedy: str) -> HalfCountedError:
    """The error for counts that a change has left half-way."""
    return HalfCountedError("counts are half-way through a change", problem, remedy)


def interrupted() -> HalfCountedError:
    """The error for counts that are read or changed in the middle of a change."""
    problem = "an interrupt or a signal handler came in between"
    remedy = "only set a flag in a handler; after an interrupt, call reset(), or load a saved state"
    return half_counted(problem, remedy)
