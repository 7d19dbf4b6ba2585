"""Scored items with their outcomes, for AUC, calibration and rating metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise, repeat
from typing import Any, ClassVar, Final, Literal, TypeAlias

import msgspec
import numpy as np

from streameval.events import Batch, Id, Interactions
from streameval.events.ragged import Ragged
from streameval.statistics.arrays import BoolArray, FloatArray, IntArray
from streameval.statistics.asked import CellOptions
from streameval.statistics.distributions import (
    BINNED,
    BITS,
    CAP,
    BinnedFloats,
    bins_of,
    floats_of_keys,
)
from streameval.statistics.relation import Shape
from streameval.statistics.statistic import Cells, Statistic, cell_of_each
from streameval.statistics.vocabulary import Items

Positive: TypeAlias = Literal["relevant", "one"]
"""Positive items: those with a gain above 0 (an id has gain 1), or with a gain of exactly 1."""


class RankSumsOptions(CellOptions, frozen=True, kw_only=True):
    """Options of a statistic of rank sums; only equal options merge.

    Attributes:
        positive: which items are positive; an item without an interaction is negative.
        single: whether scores are rounded to 32-bit floats, which creates more ties.
        type: the type of interactions that count; "" for all types.
    """

    positive: Positive = "relevant"
    single: bool = False
    type: str = ""

    def make(self, items: Items, _attributes: Mapping[str, Any]) -> Statistic:
        """See `CellOptions`."""
        return RankSumsOfLists(self, items)


class ScoresOptions(CellOptions, frozen=True, kw_only=True):
    """Options of a statistic of scores; only equal options merge.

    Attributes:
        positive: see `RankSumsOptions`, which also describes `single` and `type`.
        cap: largest number of distinct scores of a cell; beyond it, all its scores are binned.
    """

    positive: Positive = "relevant"
    single: bool = False
    type: str = ""
    cap: int = CAP

    def make(self, items: Items, _attributes: Mapping[str, Any]) -> Statistic:
        """See `CellOptions`."""
        return ScoredItems(self, items)


def samples(
    batch: Batch, options: RankSumsOptions | ScoresOptions, cells: Cells
) -> Iterator[tuple[IntArray, Ragged, BoolArray]]:
    """The scored items of a batch, of some thousand lists at a time.

    Yields:
        Of lists that have scores: the cell of each, its scores, and whether each item is positive.
    """
    if options.type:
        batch = batch.of_type(options.type)
    scores_of, where = batch.scores or (), cell_of_each(cells, len(batch))
    scored = [row for row, scores in enumerate(scores_of) if scores is not None and len(scores)]
    for start in range(0, len(scored), _MOST_LISTS):
        rows = scored[start : start + _MOST_LISTS]
        scores, outcomes = list[float](), list[float]()
        for row in rows:
            scores += scores_of[row] or ()
            outcomes += map(
                gains_of(batch.interactions[row]).get, batch.recommendations[row], repeat(0.0)
            )
        with np.errstate(over="ignore"):
            values = np.array(scores, np.float32 if options.single else np.float64)
        gain = np.array(outcomes, np.float64)
        lengths = np.array([len(batch.recommendations[row]) for row in rows])
        positive = gain == 1 if options.positive == "one" else gain > 0
        yield where[rows], Ragged.of_lengths(values.astype(np.float64), lengths), positive


def gains_of(interactions: Interactions) -> Mapping[object, float]:
    """Item -> gain; 1 if interactions have no gains."""
    if type(interactions) in _WITHOUT_GAINS or not isinstance(interactions, Mapping):
        return dict.fromkeys(interactions, 1.0)
    return interactions  # type: ignore[return-value]  # ids are objects


def relevant_items(interactions: Interactions) -> set[Id]:
    """The items interacted with that have a gain above 0.

    Example:
        >>> relevant_items({"a": 1.0, "b": 0.0})
        {'a'}
    """
    if type(interactions) in _WITHOUT_GAINS or not isinstance(interactions, Mapping):
        return set(interactions)
    return {item for item, gain in interactions.items() if gain > 0}


_WITHOUT_GAINS: Final = frozenset({list, tuple, set, frozenset})
"""Looked at first, because a check of Mapping is slow."""

_MOST_LISTS = 8_192


class ScoredItems(Statistic):
    """Counts positive and negative items by score, exact up to a cap of distinct scores.

    Relations:
        scores: (cell, key of a score) -> positive items, negative items.
        lists: (cell) -> lists with scores.
        binned: see `BinnedFloats`.

    Example:
        >>> scores = ScoredItems(ScoresOptions(), Items())
        >>> batch = Batch(recommendations=[["a", "b"]], interactions=[["a"]], scores=[[0.9, 0.2]])
        >>> scores.count(batch, 0)
        >>> scores.view(np.array([0]))[0].area()
        (1.0, 0.0)
    """

    shapes: ClassVar[Mapping[str, Shape]] = {
        "scores": Shape(keys=2, counts=2),
        "lists": Shape(keys=1),
        "binned": BINNED,
    }
    options: ScoresOptions
    cap: BinnedFloats

    def __init__(self, options: ScoresOptions, items: Items) -> None:
        super().__init__(options, items)
        self.cap = BinnedFloats(self.relations, "scores", options.cap)

    def count(self, batch: Batch, cells: Cells) -> None:
        """Count the scored items of many lists; lists without scores are left out."""
        for lists, scores, positive in samples(batch, self.options, cells):
            self.relations["lists"].add([lists], [np.ones_like(lists)])
            outcomes = positive.astype(np.int64)
            self.cap.put(scores.spread(lists), scores.values, [outcomes, 1 - outcomes])

    def view(self, cells: IntArray) -> list[Scores]:
        """The argument of metrics for each of these cells."""
        self.reduce()
        lists = self.relations["lists"].value(cells).tolist()
        estimated = (self.relations["binned"].value(cells) > 0).tolist()
        rows = zip(lists, estimated, self.relations["scores"].by_cell(cells), strict=True)
        return [Scores(seen, rough, *columns) for seen, rough, columns in rows]


class Scores(msgspec.Struct, frozen=True, eq=False):
    """The scored items of one cell: the argument `scores` of a metric.

    Attributes:
        lists: lists with scores.
        estimated: whether scores are binned.
        keys: keys of the distinct scores or bins, ascending.
        positives: positive items of each key.
        negatives: negative items of each key.
    """

    lists: int
    estimated: bool
    keys: IntArray
    positives: IntArray
    negatives: IntArray

    def columns(self) -> tuple[FloatArray, IntArray, IntArray]:
        """Distinct scores (or bin middles), ascending, with their positives and negatives."""
        scores = bins_of(BITS).middles(self.keys) if self.estimated else floats_of_keys(self.keys)
        return scores, self.positives, self.negatives

    def area(self) -> tuple[float, float]:
        """Area under the ROC curve, with ties as one half, and its largest error from binning.

        NaN and 0 without a positive or without a negative item.
        """
        p, n = int(self.positives.sum()), int(self.negatives.sum())
        if not p or not n:
            return float("nan"), 0.0
        below = np.cumsum(self.negatives) - self.negatives
        twice = _dot(self.positives, 2 * below + self.negatives)
        bound = _dot(self.positives, self.negatives) / (2 * p * n) if self.estimated else 0.0
        return twice / (2 * p * n), bound


class RankSumsOfLists(Statistic):
    """Mann and Whitney's U of each list, summed over lists with equal positives and negatives.

    U is kept doubled, so that it is an integer although a tie counts one half.

    Relations:
        sums: (cell, positives, negatives) -> twice the pairs in the right order, lists.

    Example:
        >>> sums = RankSumsOfLists(RankSumsOptions(), Items())
        >>> batch = Batch(recommendations=[["a", "b"]], interactions=[["a"]], scores=[[0.9, 0.2]])
        >>> sums.count(batch, 0)
        >>> sums.view(np.array([0]))[0].twice.tolist()
        [2]
    """

    shapes: ClassVar[Mapping[str, Shape]] = {"sums": Shape(keys=3, counts=2)}
    options: RankSumsOptions

    def count(self, batch: Batch, cells: Cells) -> None:
        """Count many lists; those without scores are left out."""
        for lists, ragged, positives in samples(batch, self.options, cells):
            rows: list[tuple[int, int, int]] = []
            edges = pairwise(ragged.offsets.tolist())
            for start, stop in edges:
                scores, positive = ragged.values[start:stop], positives[start:stop]
                above, below = scores[positive], np.sort(scores[~positive])
                sides = [np.searchsorted(below, above, side) for side in ("left", "right")]
                rows.append((above.size, below.size, int(np.sum(sides))))
            positive_items, negative_items, twice = np.array(rows, np.int64).T
            keys = [lists, positive_items, negative_items]
            self.relations["sums"].add(keys, [twice, np.ones_like(twice)])

    def view(self, cells: IntArray) -> list[RankSums]:
        """The argument of metrics for each of these cells."""
        return [RankSums(*columns) for columns in self.relations["sums"].by_cell(cells)]


class RankSums(msgspec.Struct, frozen=True, eq=False):
    """The rank sums of one cell, as columns of equal length: the argument `ranksums` of a metric.

    Attributes:
        positives: number of positive items of a list.
        negatives: number of negative items of a list.
        twice: twice the pairs in the right order, summed over such lists.
        counts: number of such lists.
    """

    positives: IntArray
    negatives: IntArray
    twice: IntArray
    counts: IntArray

    @property
    def lists(self) -> int:
        """Number of lists with scores."""
        return int(self.counts.sum())


def _dot(left: IntArray, right: IntArray) -> int:
    # Python integers, because the product of two large counts may exceed 2^63.
    return sum(a * b for a, b in zip(left.tolist(), right.tolist(), strict=True) if a)
