"""The base of all statistics: relations that are merged, renamed, copied and saved."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np

from streameval.errors import UnlikeStateError
from streameval.events import Batch
from streameval.events.ragged import CodedBatch
from streameval.statistics.arrays import IntArray
from streameval.statistics.relation import Relation, Shape
from streameval.statistics.vocabulary import Items

Cells: TypeAlias = int | IntArray
"""Where events are counted: one cell for all of them, or one for each."""


class Statistic:
    """Counts events of many cells into relations.

    Attributes:
        relations: what it remembers; to be read after `fold` only.
        waiting: rows of many cells that the next `fold` moves, where these may be many.
    """

    waiting = 0
    shapes: ClassVar[Mapping[str, Shape]]

    def __init__(self, options: object, items: Items) -> None:
        self.options = options
        self.items = items
        self.relations = {name: Relation(shape) for name, shape in self.shapes.items()}

    def count(self, batch: Batch, cells: Cells) -> None:
        """Count many events."""
        raise NotImplementedError

    def count_coded(self, coded: CodedBatch, cells: Cells) -> None:
        """Count many events whose ids are numbers; the same content."""
        self.count(coded.batch, cells)

    def view(self, cells: IntArray) -> Any:
        """What metrics read of each of these cells."""
        raise NotImplementedError

    def fold(self) -> None:
        """Move what is pending into the relations; changes no content."""

    def merge(self, *others: Self) -> None:
        """Add what others counted; many at once are quicker than one by one.

        Raises:
            UnlikeStateError: the options of one differ.
        """
        for other in others:
            if other.options != self.options:
                raise UnlikeStateError(type(self).__name__.lower(), self.options, other.options)
            other.fold()
        self.fold()
        for name, relation in self.relations.items():
            relation.merge(
                *(_translated(each.relations[name], each.items, self.items) for each in others)
            )

    def subtract(self, other: Self) -> None:
        """Take away what was added; nothing in it was thinned or binned."""
        self.fold()
        other.fold()
        for name, relation in other.relations.items():
            self.relations[name].subtract(_translated(relation, other.items, self.items))

    @property
    def reduced(self) -> bool:
        """Whether any cell was thinned or binned, and so is no longer a plain sum."""
        return False

    @property
    def added_up(self) -> bool:
        """Whether merging it only adds up rows."""
        return not self.reduced

    def rename(self, names: Mapping[int, int]) -> None:
        """Cells get other numbers; those that meet are summed."""
        self.fold()
        for name, relation in self.relations.items():
            self.relations[name] = relation.renamed(names)

    def made(self, change: Callable[[Relation], Relation]) -> Self:
        """One with the same options whose relations are made of these."""
        self.fold()
        twin = self.empty()
        for name, relation in self.relations.items():
            twin.relations[name] = change(relation)
        return twin

    def copy(self) -> Self:
        """An independent one with the same content; columns are shared, for they never change."""
        return self.made(lambda relation: relation.copy())

    def empty(self) -> Self:
        """One with the same options and vocabulary that has counted nothing."""
        return type(self)(self.options, self.items)

    def hand_out(self, bits: int, goals: Mapping[int, Self]) -> None:
        """Add what was counted to others of one vocabulary; see `Table.hand_out`."""
        self.fold()
        plain = self.added_up and all(goal.options == self.options for goal in goals.values())
        parts = dict[int, Self]()
        for name, relation in self.relations.items():
            for upper, rows in relation.split(bits) if goals else ():
                if upper not in goals:
                    continue
                if upper not in parts:
                    parts[upper] = goals[upper] if plain else self.empty()
                parts[upper].relations[name].merge(rows)
        if not plain:
            for upper, part in parts.items():
                goals[upper].merge(part)

    def used(self, cells: IntArray) -> IntArray:
        """Codes of the items that these cells name, with repeats."""
        named = [(each.shape.items, each) for each in self.relations.values()]
        found = [each.of(cells)[1][column - 1] for column, each in named if column is not None]
        return np.concatenate([np.zeros(0, np.int64), *found])


def _translated(relation: Relation, old: Items, new: Items) -> Relation:
    column = relation.shape.items
    if column is None or old is new or not relation.size:
        return relation
    used = np.unique(relation.columns[column])
    table = np.zeros(len(old.names), np.int64)
    table[used] = new.codes_of(old.named(used))
    return relation.mapped(column, table)
