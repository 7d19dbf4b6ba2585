"""The base of all statistics: relations that are merged, renamed, copied and saved."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from msgspec.msgpack import Ext

from streameval.events import Batch
from streameval.events.saved_states import unlike
from streameval.statistics.arrays import IntArray, distinct
from streameval.statistics.relation import Relation, Shape
from streameval.statistics.vocabulary import Items

Cells: TypeAlias = int | IntArray
"""One cell for all events of a batch, or the cell of each event, shape (events,)."""


def cell_of_each(cells: Cells, events: int) -> IntArray:
    """The cell of each event, shape (events,)."""
    return np.full(events, cells, np.int64) if isinstance(cells, int) else cells


class CellCap:
    """Bounds the rows of each cell of a statistic, which holds it and reduces the larger ones.

    Args:
        relations: of the statistic.
        rows: name of the bounded relation.
        marks: name of the relation with the cells that are reduced.
        most: largest number of rows of a cell that is not reduced.

    Attributes:
        additive: whether the rows of cells that are not reduced may be added as they are.
    """

    additive = True

    def __init__(self, relations: Mapping[str, Relation], rows: str, marks: str, most: int) -> None:
        self._relations = relations
        self._rows, self._marks = rows, marks
        self._most = most
        self._room = 0
        self._checked: tuple[Relation, Relation, int] | None = None

    @property
    def rows(self) -> Relation:
        """The bounded relation."""
        return self._relations[self._rows]

    @property
    def marks(self) -> Relation:
        """The cells that are reduced."""
        return self._relations[self._marks]

    @property
    def reduced(self) -> bool:
        """True if any cell is reduced."""
        return self.marks.size > 0

    @property
    def fits(self) -> bool:
        """True if no cell can be too large; if not, count the rows of each."""
        relation, marks = self.rows, self.marks
        if relation.size <= self._most and not marks.size:
            return True
        return self._checked == (relation, marks, marks.version) and relation.size <= self._room

    def note_largest(self, rows: int | None = None) -> None:
        """Note that all cells fit; `rows`: of the largest, by default as many as fit."""
        relation, marks = self.rows, self.marks
        self._checked = relation, marks, marks.version
        self._room = relation.size + self._most - (self._most if rows is None else rows)

    def forget(self) -> None:
        """Forget which rows a cell had: others may have been added, or taken away."""
        self._checked = None

    def reduce(self) -> None:
        """Reduce the cells that are too large."""
        raise NotImplementedError

    def align(self, others: Sequence[Any]) -> Sequence[Any]:
        """Other statistics, with cells reduced so that their rows can be added to those here."""
        return others

    def unite(self, names: Mapping[int, int]) -> None:
        """Prepare for new numbers of cells: those that get one number are reduced alike."""


class Statistic:
    """Counts events of many cells into relations.

    The content is a function of the events of each cell, whatever their order or partitioning.

    Attributes:
        relations: the state; cells may be too large until `reduce`.
        cap: bounds the rows of each cell; None if no cell is ever reduced.
    """

    cap: CellCap | None = None
    shapes: ClassVar[Mapping[str, Shape]]

    def __init__(self, options: object, items: Items) -> None:
        self.options = options
        self.items = items
        self.relations = {name: Relation(shape) for name, shape in self.shapes.items()}

    def count(self, batch: Batch, cells: Cells) -> None:
        """Count many events.

        Args:
            batch: the events; `times` are an array. Columns that only formulas of metrics read
                (`baselines`, `histories`, `per_item`, `shown_instead`) are None.
            cells: the cell of each.
        """
        raise NotImplementedError

    def view(self, cells: IntArray) -> Any:
        """The argument of metrics for these cells; of a `CellSpec`, a list with one for each."""
        raise NotImplementedError

    def reduce(self) -> None:
        """Reduce the cells that are too large."""
        if self.cap is not None and not self.cap.fits:
            self.cap.reduce()

    def merge(self, *others: Self) -> None:
        """Add the counts of others; merging many at once is faster.

        Raises:
            UnlikeStateError: one has other options.
        """
        for other in others:
            if other.options != self.options:
                raise unlike(type(self).__name__.lower(), self.options, other.options)
            other.reduce()
        self.reduce()
        alike = others if self.cap is None else self.cap.align(others)
        for name, relation in self.relations.items():
            relation.merge(
                *(_translate(other.relations[name], other.items, self.items) for other in alike)
            )

    def subtract(self, other: Self) -> None:
        """Subtract counts that were added before; neither statistic may be `reduced`."""
        self.reduce()
        other.reduce()
        for name, relation in other.relations.items():
            self.relations[name].subtract(_translate(relation, other.items, self.items))
        if self.cap is not None:
            self.cap.forget()

    @property
    def cells(self) -> IntArray:
        """The cells with rows, ascending."""
        return distinct(np.concatenate([each.cells for each in self.relations.values()]))

    @property
    def version(self) -> list[object]:
        """Unequal to earlier ones when the content has changed."""
        return [(relation, relation.version) for relation in self.relations.values()]

    @property
    def reduced(self) -> bool:
        """True if any cell was thinned or binned, so that it is no longer a plain sum."""
        return self.cap is not None and self.cap.reduced

    @property
    def is_additive(self) -> bool:
        """True if merging it only adds rows."""
        return not self.reduced and (self.cap is None or self.cap.additive)

    def rename(self, names: Mapping[int, int]) -> None:
        """Renumber cells; cells that get one number are summed."""
        self.reduce()
        if self.cap is not None:
            self.cap.unite(names)
        for name, relation in self.relations.items():
            self.relations[name] = relation.renamed(names)

    def mapped(self, change: Callable[[Relation], Relation]) -> Self:
        """A copy with `change` applied to each relation; under a cap it may only remove cells."""
        self.reduce()
        duplicate = self.empty()
        for name, relation in self.relations.items():
            duplicate.relations[name] = change(relation)
        if duplicate.cap is not None:
            duplicate.cap.note_largest()
        return duplicate

    def copy(self) -> Self:
        """An independent copy; it shares columns, which are immutable."""
        return self.mapped(lambda relation: relation.copy())

    def empty(self) -> Self:
        """A new statistic with the same options and vocabulary."""
        return type(self)(self.options, self.items)

    def distribute(self, bits: int, targets: Mapping[int, Self]) -> None:
        """Add the counts to other statistics with one vocabulary; see `Table.distribute`."""
        self.reduce()
        additive = self.is_additive and all(
            target.options == self.options for target in targets.values()
        )
        parts = dict[int, Self]()
        for name, relation in self.relations.items():
            for upper, rows in relation.split(bits) if targets else ():
                if upper not in targets:
                    continue
                if upper not in parts:
                    parts[upper] = targets[upper] if additive else self.empty()
                parts[upper].relations[name].merge(rows)
        if not additive:
            for upper, part in parts.items():
                targets[upper].merge(part)

    def restore(
        self,
        saved: Sequence[Sequence[Ext]],
        cells: IntArray,
        codes: IntArray,
        metrics: Sequence[str],  # noqa: ARG002  only sums have columns by metric
        without: Collection[str] = (),  # noqa: ARG002  likewise
    ) -> None:
        """Fill an empty statistic from saved relations.

        Args:
            saved: the relations.
            cells: the new number of each saved cell.
            codes: the code of each saved item.
            metrics: those of saved sums.
            without: metrics that start empty.

        Raises:
            ValueError: the relations are not valid.
        """
        for (name, relation), columns in zip([*self.relations.items()], saved, strict=True):
            self.relations[name] = relation.restore(columns, cells, codes)

    def item_codes(self, cells: IntArray) -> IntArray:
        """Codes of the items in these cells, with repeats."""
        codes = [
            relation.of(cells)[1][relation.shape.items - 1]
            for relation in self.relations.values()
            if relation.shape.items is not None
        ]
        return np.concatenate([np.zeros(0, np.int64), *codes])


def _translate(relation: Relation, old: Items, new: Items) -> Relation:
    column = relation.shape.items
    if column is None or old is new or not relation.size:
        return relation
    used = np.unique(relation.columns[column])
    table = np.zeros(len(old.names), np.int64)
    table[used] = new.codes_of(old.named(used))
    return relation.mapped(column, table)
