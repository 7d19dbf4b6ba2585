"""Rank sums: pairs of a list with a positive item scored above a negative one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import msgspec
import numpy as np

from streameval.events import Batch
from streameval.statistics.arrays import IntArray
from streameval.statistics.relation import Shape
from streameval.statistics.samples import Sampling, samples
from streameval.statistics.statistic import Cells, Statistic
from streameval.statistics.vocabulary import Items

_MOST_WAITING = 8_192


class RankSumsOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Identity of a statistic of rank sums; unlike ones do not merge."""

    sampling: Sampling = Sampling()


class RankSumsOfLists(Statistic):
    """Per list, twice the number of pairs in the right order (ties one half), an integer.

    Kept as the sum over lists of equal numbers of positives and negatives: Mann and Whitney's U.

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

    def __init__(self, options: RankSumsOptions, items: Items) -> None:
        super().__init__(options, items)
        self._waiting: list[tuple[int, int, int, int]] = []

    def count(self, batch: Batch, cells: Cells) -> None:
        """Count many lists; those without scores are left out."""
        for cell, scores, positive in samples(batch, self.options.sampling, cells):
            places = np.searchsorted(np.sort(scores[~positive]), scores[positive], "left")
            ends = np.searchsorted(np.sort(scores[~positive]), scores[positive], "right")
            p = int(positive.sum())
            self._waiting.append((cell, p, scores.size - p, int((places + ends).sum())))
        if len(self._waiting) >= _MOST_WAITING:
            self.fold()

    def fold(self) -> None:
        """Move what is pending into the relation."""
        if self._waiting:
            cell, p, n, twice = np.array(self._waiting, np.int64).T
            self._waiting = []
            self.relations["sums"].add([cell, p, n], [twice, np.ones_like(p)])

    def view(self, cells: IntArray) -> list[RankSums]:
        """What metrics read, of each of these cells."""
        self.fold()
        return [RankSums(*columns) for columns in self.relations["sums"].apart(cells)]


class RankSums(msgspec.Struct, frozen=True, eq=False):
    """The rank sums of one cell, as columns of equal length; read by metrics as `ranksums`.

    Attributes:
        positives: positive items of a list.
        negatives: its negative items.
        twice: twice the pairs in the right order, over all such lists.
        counts: how many such lists there are.
    """

    positives: IntArray
    negatives: IntArray
    twice: IntArray
    counts: IntArray

    @property
    def lists(self) -> int:
        """All lists with scores."""
        return int(self.counts.sum())
