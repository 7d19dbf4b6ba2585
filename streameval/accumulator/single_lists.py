"""Lists that are given one by one: appended to a block, and counted together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec

from streameval.accumulator.guard import between
from streameval.accumulator.plan import Plan
from streameval.events import Id
from streameval.events.batch import Batch, batch_of
from streameval.events.ids import IdKind
from streameval.kernel import BLOCK, Block, matches_of
from streameval.statistics.matching import Search

Adder: TypeAlias = Callable[[Any, Any], bool]
"""Appends a list and its interactions; False for a list that must be counted by itself."""


class SingleLists:
    """The lists that no table has counted yet.

    `plan`: of the table. Nothing is appended before the kind of the ids is known, or if the table
    needs more of an event than its list and interactions.
    """

    def __init__(self, plan: Plan) -> None:
        self._reads_lists_only, self._kept = plan.reads_lists_only, plan.shown
        self._block: Block | None = None
        self._items: list[Sequence[Id]] = []

    def __len__(self) -> int:
        return 0 if self._block is None else len(self._block)

    @property
    def full(self) -> bool:
        """Whether the lists must be counted before the next one is appended."""
        return len(self) >= BLOCK

    @property
    def add(self) -> Adder:
        """What appends a list until the next `take`; the kernel itself, where nothing is kept."""
        if self._block is None:
            return add_nothing
        return _keeping(self._block.add, self._items.append, self._kept)

    def begin(self, kind: IdKind | None, search: Search) -> None:
        """Take lists with ids of this kind."""
        if self._block is None and kind is not None and self._reads_lists_only:
            self._block = Block(kind, *search)

    def take(self, search: Search) -> Batch:
        """The lists, at least one, as a batch; none are left.

        Raises:
            HalfCountedError: an interrupt came between a list and its items.
        """
        items = None if self._kept is None else self._items
        if self._block is None or (items is not None and len(items) != len(self)):
            raise between()
        batch = batch_of(matches_of(self._block.take(), *search))
        self._items = []
        return batch if items is None else msgspec.structs.replace(batch, recommendations=items)


def add_nothing(_: Any, __: Any) -> bool:
    """Take no list."""
    return False


def _keeping(add: Adder, keep: Callable[[Any], None], kept: slice | None) -> Adder:
    """`add` that also keeps a part of each list that it takes; None keeps nothing."""
    if kept is None:
        return add

    def add_and_keep(recommendations: Any, interactions: Any) -> bool:
        taken = add(recommendations, interactions)
        if taken:
            keep(recommendations[kept])
        return taken

    return add_and_keep
