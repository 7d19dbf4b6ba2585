"""The terms that lists add to sums by user or user group, and their sums."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
from msgspec.msgpack import Ext
from msgspec.structs import replace

from streameval.statistics.arrays import FloatArray, IntArray, sums
from streameval.statistics.exact import limbs
from streameval.statistics.intervals import UNIT
from streameval.statistics.relation import Relation, Shape
from streameval.statistics.statistic import Statistic


class Terms(NamedTuple):
    """The terms of some lists of a batch for one metric.

    Attributes:
        rows: indices of the lists in the batch.
        metric: the text of the metric, without parameters of its summary.
        largest: largest value that is rounded to UNIT; larger ones are summed exactly.
        numerators: one per list, as are `denominators`.
    """

    rows: IntArray
    metric: str
    largest: float
    numerators: FloatArray
    denominators: IntArray


def sums_of(shape: Shape, metrics: Sequence[str]) -> Relation:
    """An empty relation of sums: the numerators of all metrics, then the denominators of all."""
    return Relation(shape._replace(counts=2 * len(metrics)))


def add_sums(sums: Relation, keys: Sequence[IntArray], counts: Sequence[IntArray]) -> None:
    """Add the rows with a denominator above 0; a list may be left out of every mean."""
    denominators = counts[len(counts) // 2 :]
    if denominators:
        some = np.logical_or.reduce([column > 0 for column in denominators])
        sums.add([key[some] for key in keys], [count[some] for count in counts])


def lists_with_users(lists: Relation, cells: IntArray) -> tuple[IntArray, IntArray]:
    """The number of lists of each of these cells, and of those without a user.

    `lists`: a relation whose last key is 1 for lists without a user.
    """
    cell_index, (*_, nameless, counts) = lists.of(cells)
    return sums(cell_index, counts, cells.size), sums(cell_index, counts * nameless, cells.size)


def restore_sums(
    self: Statistic,
    saved: Sequence[Sequence[Ext]],
    cells: IntArray,
    codes: IntArray,
    metrics: Sequence[str],
    without: Collection[str] = (),
) -> None:
    """`Statistic.restore` of sums, which may be saved of other metrics.

    Args:
        self: sums by user or user group; its options have `metrics`, the texts of them.
        saved: the relations.
        cells: the new number of each saved cell.
        codes: of items; sums have none.
        metrics: the texts of the metrics that were saved, ascending.
        without: metrics that start empty.

    Raises:
        ValueError: the relations are not valid.
    """
    options: Any = self.options
    other = type(self)(replace(options, metrics=tuple(metrics)), self.items)
    loaded = {
        name: relation.restore(columns, cells, codes)
        for (name, relation), columns in zip([*other.relations.items()], saved, strict=True)
    }
    columns, keys = loaded["sums"].columns, self.shapes["sums"].keys
    index = {metric: at for at, metric in enumerate(metrics) if metric not in without}
    none = np.zeros_like(columns[0])
    counts = [
        columns[keys + half * len(metrics) + index[metric]] if metric in index else none
        for half in (0, 1)
        for metric in options.metrics
    ]
    add_sums(self.relations["sums"], columns[:keys], counts)
    if "exact" in loaded:
        at = {metric: number for number, metric in enumerate(options.metrics)}
        goals = [at.get(metric, -1) if metric in index else -1 for metric in metrics]
        columns = loaded.pop("exact").columns
        column = np.array([*goals, -1])[columns[keys]]
        rows = [each[column >= 0] for each in (*columns[:keys], column, *columns[keys + 1 :])]
        self.relations["exact"].add(rows[: keys + 2], rows[keys + 2 :])
    del loaded["sums"]
    self.relations |= loaded


def slot_totals(
    slots: int,
    slot: IntArray,
    terms: Sequence[Terms],
    metrics: Sequence[str],
    limit: float | None = None,
) -> tuple[list[IntArray], list[tuple[list[IntArray], list[IntArray]]]]:
    """The sums of the terms of lists by slot, such as a user or a user group of a day.

    Args:
        slots: number of slots.
        slot: of each list of the batch; lists of the slot `slots` are in no sum.
        terms: those of the lists.
        metrics: texts of those that are summed.
        limit: of the values, which are rounded to UNIT; None sums those that are unbounded or large
            exactly instead.

    Returns:
        The numerators of each metric, then the denominators of each, one integer per slot; of the
        values that are summed exactly, slots, metrics and exponents, and their parts.
    """
    index_of = {metric: index for index, metric in enumerate(metrics)}
    # Lists without a slot are summed in an extra last column, which is left out.
    totals = np.zeros((2, len(metrics), slots + 1), np.int64)
    exact: list[tuple[list[IntArray], list[IntArray]]] = []
    shared: dict[tuple[int, bytes], IntArray] = {}
    for rows, metric, largest, numerators, denominators in terms:
        if metric not in index_of:
            continue
        index, of_list, values = index_of[metric], slot[rows], numerators
        if limit is not None:
            values = np.clip(values, -limit, limit)
        else:
            loose = (values != 0) & (np.abs(values) > largest)
            loose_rows = np.flatnonzero(loose & (of_list < slots))
            if loose_rows.size:
                of_loose, (exponents, parts) = (
                    of_list[loose_rows],
                    limbs(values[loose_rows], np.ones_like(loose_rows)),
                )
                exact.append(([of_loose, np.full_like(of_loose, index), exponents], parts))
            values = np.where(loose, 0.0, values)
        totals[0, index] += sums(of_list, np.rint(values / UNIT).astype(np.int64), slots + 1)
        # Most metrics have the same denominators.
        key = id(rows), denominators.tobytes()
        if key not in shared:
            shared[key] = sums(of_list, denominators, slots + 1)
        totals[1, index] += shared[key]
    return [*totals[0, :, :-1], *totals[1, :, :-1]], exact
