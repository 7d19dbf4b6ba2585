"""Blocks of events that were given one at a time, and are counted together as batches.

An event is checked when it is given. What the kernel does not take goes the way of any batch, which
converts it, or says what is wrong with it, and then waits, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from streameval.accumulator.formulas import EventValues
from streameval.accumulator.guard import between
from streameval.accumulator.intake import NOWADAYS, checked_ranks, checked_scores
from streameval.accumulator.plan import Plan
from streameval.events import Batch
from streameval.events.batch import batch_of
from streameval.events.errors import InvalidEventError
from streameval.events.ids import IdKind
from streameval.statistics.kernel import BLOCK, COMPILED, Block, matches_of
from streameval.statistics.matching import Search

Adder: TypeAlias = Callable[[Any, Any], bool]
"""Appends a list and its interactions; False for a list that must be counted by itself."""

_LISTS: Final = frozenset({list, tuple})
_FIXED: Final = frozenset({tuple, frozenset})
_CHANGING: Final = frozenset({list, set, dict})
_ARE_BUILT_IN: Final = frozenset({str, int}).issuperset
_TYPE_OF_USERS: Final[Mapping[IdKind | None, type | None]] = {
    "text": str,
    "integer": int,
    None: None,
}


class Fields(NamedTuple):
    """What an event may have besides a list and its interactions, as given or None."""

    positions: Any = None
    scores: Any = None
    user: Any = None
    ts: Any = None


_NO_FIELDS: Final = Fields()


class Blocks:
    """Events that no table has counted yet.

    `plan`: of the table. Before the kind of the ids is known, and if a formula reads each event,
    only `append` takes any.

    Attributes:
        add: append a list without other fields until its block is full; the kernel itself, where
            nothing else is kept.

    Example:
        >>> from streameval.accumulator.plan import asked_metrics, make_plan
        >>> blocks = Blocks(make_plan(asked_metrics(["mrr@2"]), None, 9))
        >>> blocks.begin("text", Search(2))
        >>> blocks.add(["a", "b"], ["b"]), blocks.add(["a", 7], [])
        (True, False)
        >>> [batch.matches.place.tolist() for batch, _ in blocks.take()], len(blocks)
        ([[1]], 0)
    """

    def __init__(self, plan: Plan) -> None:
        self._can_wait, self._reads_lists_only = not plan.has_formulas, plan.reads_lists_only
        self._counts_items, self._shown = plan.shown is not None, plan.shown or slice(0)
        self._search = Search()
        self._lists: list[Sequence[Any]] = []
        self._block: Block | None = None
        self._events: tuple[_EventBlock, ...] = ()
        self._checked: list[tuple[Batch, EventValues]] = []
        self.add: Adder = add_nothing

    def begin(self, kind: IdKind | None, search: Search) -> None:
        """Take events with ids of this kind, and search their lists so."""
        if self._block is not None or kind is None or not self._can_wait:
            return
        self._search = search
        self._block = Block(kind, *search)
        self._events = (_EventBlock(kind, search), _EventBlock(kind, Search(every=True)))
        self.add = self._events[0].add
        if self._reads_lists_only:
            self.add = self._add_and_keep if self._counts_items else self._block.add

    def __len__(self) -> int:
        if self._block is None:
            return len(self._checked)
        plain, ranked = self._events
        return len(self._block) + len(plain) + len(ranked) + len(self._checked)

    @property
    def are_full(self) -> bool:
        """Whether one of the blocks takes no more."""
        return any(
            len(block) >= BLOCK for block in (self._block or (), *self._events, self._checked)
        )

    def add_event(
        self, recommendations: Any, interactions: Any, fields: Fields, users: IdKind | None
    ) -> bool:
        """`add` for an event that may have other fields.

        `users`: the kind of the user ids counted before.
        """
        positions, scores, user, ts = fields
        if self._block is None:
            return False
        if user is not None and (type(user) is not _TYPE_OF_USERS[users] or user == ""):
            return False
        if ts is not None and not (type(ts) is int and NOWADAYS[0] <= ts < NOWADAYS[1]):
            return False
        if positions is None and (scores is None and self._reads_lists_only):
            return self.add(recommendations, interactions)
        return self._events[positions is not None].add(recommendations, interactions, fields)

    def append(self, event: Batch, values: EventValues) -> None:
        """Append a checked batch of one event, and its values for formulas."""
        columns = {name: _frozen(getattr(event, name)) for name in event.__struct_fields__}
        self._checked.append((msgspec.structs.replace(event, **columns), values))

    def take(self) -> Iterator[tuple[Batch, EventValues | None]]:
        """The events taken since the last call, and their values for formulas if they are known."""
        if self._block is not None and len(self._block):
            yield self._take_lists(self._block), None
        for block in self._events:
            if len(block):
                yield block.take(), None
        checked, self._checked = self._checked, []
        if checked:
            (first, *others), values = zip(*checked, strict=True)
            yield first.joined(*others), [*chain.from_iterable(values)]

    def _add_and_keep(self, recommendations: Any, interactions: Any) -> bool:
        shown = _kept(recommendations, self._shown)
        if shown is None or self._block is None:
            return False
        taken = self._block.add(recommendations, interactions)
        if taken:
            self._lists.append(shown)
        return taken

    def _take_lists(self, block: Block) -> Batch:
        if self._counts_items and len(self._lists) != len(block):
            raise between()
        batch = batch_of(matches_of(block.take(), *self._search))
        if not self._counts_items:
            return batch
        lists, self._lists = self._lists, []
        return msgspec.structs.replace(batch, recommendations=lists)


class _EventBlock:
    """Events with their columns."""

    def __init__(self, kind: IdKind, search: Search) -> None:
        self._search = search
        self._block = Block(kind, *search)
        self._rows: list[tuple[Any, ...]] = []

    def __len__(self) -> int:
        return len(self._block)

    def add(self, recommendations: Any, interactions: Any, fields: Fields = _NO_FIELDS) -> bool:
        positions, scores, user, ts = fields
        if len(self._rows) != len(self._block):
            raise between()
        # Copies, because a caller may change what was counted.
        shown, acts = _kept(recommendations), _copy(interactions)
        if shown is None or acts is None:
            return False
        try:
            ranks = checked_ranks(shown, positions)
            scores = None if scores is None else [*(checked_scores(shown, scores) or ())]
        except InvalidEventError:
            return False
        if not self._block.add(shown, acts):
            return False
        self._rows.append((shown, acts, ranks, scores, user, ts))
        return True

    def take(self) -> Batch:
        if len(self._rows) != len(self._block):
            raise between()
        rows, self._rows = self._rows, []
        matches = matches_of(self._block.take(), *self._search)
        shown, acts, *columns = map(list, zip(*rows, strict=True))
        positions, scores, users, times = map(_column, columns)
        return Batch(
            recommendations=shown,
            interactions=acts,
            positions=positions,
            scores=scores,
            users=users,
            times=times,
            matches=matches,
        )


def _column(values: list[Any]) -> list[Any] | None:
    return None if values.count(None) == len(values) else values


def _kept(recommendations: Any, part: slice = slice(None)) -> Sequence[Any] | None:
    """A part of a list, for later; None if its items must be converted first.

    The kernel in Python takes items of a subclass of str, too.
    """
    if type(recommendations) not in _LISTS:
        return None
    shown: Sequence[Any] = recommendations[part]
    return shown if COMPILED or _ARE_BUILT_IN(map(type, shown)) else None


def _copy(interactions: Any) -> Any:
    """The interactions, for later; None if they must be converted first."""
    if type(interactions) in _FIXED:
        return interactions
    return interactions.copy() if type(interactions) in _CHANGING else None


def _frozen(value: Any) -> Any:
    """A copy of lists, sets and dicts with what they hold."""
    if type(value) is dict:
        return {key: _frozen(held) for key, held in value.items()}
    if type(value) is list:
        return [*map(_frozen, value)]
    return value.copy() if type(value) is set else value


def add_nothing(_: Any, __: Any) -> bool:
    """Append no list."""
    return False
