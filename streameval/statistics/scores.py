"""Outcomes by score, for AUC and calibration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import msgspec
import numpy as np

from streameval.events import Batch
from streameval.statistics.arrays import FloatArray, IntArray
from streameval.statistics.binning import BINNED, CAP, Binned, middles, unordered
from streameval.statistics.relation import Shape
from streameval.statistics.samples import Sampling, samples
from streameval.statistics.statistic import Cells
from streameval.statistics.vocabulary import Items

_MOST_WAITING = 65_536


class ScoresOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Identity of a statistic of scores; unlike ones do not merge.

    Attributes:
        sampling: which items are positive, and how scores are rounded.
        cap: most distinct scores of a cell that are kept; beyond, all of them are binned.
    """

    sampling: Sampling = Sampling()
    cap: int = CAP


class ScoredItems(Binned):
    """Counts positive and negative items by score, exact up to a cap of distinct scores.

    Relations:
        scores: (cell, the score's key) -> positive items, negative items.
        lists: (cell) -> lists with scores.
        binned: as of `Binned`.

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
    rows = "scores"
    options: ScoresOptions

    def __init__(self, options: ScoresOptions, items: Items) -> None:
        super().__init__(options, items)
        self._waiting: list[tuple[IntArray, FloatArray, IntArray]] = []
        self._lists: list[int] = []
        self._waits = 0

    @property
    def cap(self) -> int:
        """Most distinct scores kept of a cell."""
        return self.options.cap

    def count(self, batch: Batch, cells: Cells) -> None:
        """Count the scored items of many lists; lists without scores are left out."""
        for cell, scores, positive in samples(batch, self.options.sampling, cells):
            self._lists.append(cell)
            where = np.full(scores.size, cell)
            self._waiting.append((where, scores, positive.astype(np.int64)))
            self._waits += scores.size
            if self._waits >= _MOST_WAITING:
                self.fold()

    def fold(self) -> None:
        """Move what is pending into the relations."""
        if self._waiting:
            cells, scores, positive = map(np.concatenate, zip(*self._waiting, strict=True))
            lists = np.array(self._lists, np.int64)
            self._waiting, self._lists, self._waits = [], [], 0
            self.relations["lists"].add([lists], [np.ones_like(lists)])
            self.put(cells, scores, [positive, 1 - positive])
        super().fold()

    def view(self, cells: IntArray) -> list[Scores]:
        """What metrics read, of each of these cells."""
        self.fold()
        lists = self.relations["lists"].value(cells).tolist()
        estimated = (self.relations["binned"].value(cells) > 0).tolist()
        rows = zip(lists, estimated, self.relations["scores"].apart(cells), strict=True)
        return [Scores(seen, rough, *columns) for seen, rough, columns in rows]


class Scores(msgspec.Struct, frozen=True, eq=False):
    """The scored items of one cell; what a metric that reads `scores` is a function of.

    Attributes:
        lists: lists with scores.
        estimated: whether scores are binned.
        keys: of the distinct scores, or of their bins, ascending.
        positives: positive items of each.
        negatives: negative items of each.
    """

    lists: int
    estimated: bool
    keys: IntArray
    positives: IntArray
    negatives: IntArray

    def columns(self) -> tuple[FloatArray, IntArray, IntArray]:
        """Distinct scores (or bin middles), ascending, with their positives and negatives."""
        scores = middles(self.keys) if self.estimated else unordered(self.keys)
        return scores, self.positives, self.negatives

    def area(self) -> tuple[float, float]:
        """Area under the ROC curve, ties one half, and how far off binning can have put it.

        Returns:
            NaN and 0 where there is no positive or no negative item.
        """
        p, n = int(self.positives.sum()), int(self.negatives.sum())
        if not p or not n:
            return float("nan"), 0.0
        below = np.cumsum(self.negatives) - self.negatives
        twice = _dot(self.positives, 2 * below + self.negatives)
        bound = _dot(self.positives, self.negatives) / (2 * p * n) if self.estimated else 0.0
        return twice / (2 * p * n), bound


def _dot(left: IntArray, right: IntArray) -> int:
    # Python's integers: the product of two large counts may pass 2^63.
    return sum(a * b for a, b in zip(left.tolist(), right.tolist(), strict=True) if a)
