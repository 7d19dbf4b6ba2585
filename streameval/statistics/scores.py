"""How items of each score fared: what AUC and calibration are read from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import msgspec
import numpy as np
from msgspec.msgpack import Ext

from streameval.errors import UnlikeStateError
from streameval.events import Batch
from streameval.statistics.arrays import FloatArray, IntArray
from streameval.statistics.bins import binned, middles, ordered, unordered
from streameval.statistics.packing import Count, array_of, columns_of, integers, packed
from streameval.statistics.samples import Sampling, samples
from streameval.statistics.saved import check_saved

VERSION = 1
CAP = 65_536
_MOST_WAITING = 65_536
_Saved: TypeAlias = tuple[bool, Count, Ext, Ext, Ext]


class ScoresOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Identity of a Scores statistic; unlike ones do not merge.

    Attributes:
        sampling: which items are positive, and how scores are rounded.
        cap: most distinct scores kept; beyond, all scores are binned.
    """

    sampling: Sampling = Sampling()
    cap: int = CAP


class Scores:
    """Counts of positive and negative items by score, exact up to a cap of distinct scores.

    Example:
        >>> scores = Scores(ScoresOptions())
        >>> scores.update_many(
        ...     Batch(recommendations=[["a", "b"]], interactions=[["a"]], scores=[[0.9, 0.2]])
        ... )
        >>> scores.area()
        (1.0, 0.0)
    """

    __slots__ = ("_columns", "_waiting", "_waits", "estimated", "lists", "options")

    def __init__(self, options: ScoresOptions) -> None:
        self.options = options
        self.estimated = False
        self.lists = 0
        self._columns = [np.zeros(0, np.int64) for _ in range(3)]
        self._waiting: list[tuple[FloatArray, IntArray]] = []
        self._waits = 0

    def update_many(self, batch: Batch) -> None:
        """Count the scored items of many lists; lists without scores are left out."""
        for scores, positive in samples(batch, self.options.sampling):
            self.lists += 1
            self._waiting.append((scores, positive.astype(np.int64)))
            self._waits += scores.size
            if self._waits >= _MOST_WAITING:
                self._fold()

    def columns(self) -> tuple[FloatArray, IntArray, IntArray]:
        """Distinct scores (or bin middles), ascending, with their positives and negatives."""
        self._fold()
        keys, positives, negatives = self._columns
        return (middles(keys) if self.estimated else unordered(keys)), positives, negatives

    def area(self) -> tuple[float, float]:
        """Area under the ROC curve, ties one half, and how far off binning can have put it.

        Returns:
            NaN and 0 where there is no positive or no negative item.
        """
        _, positives, negatives = self.columns()
        p, n = int(positives.sum()), int(negatives.sum())
        if not p or not n:
            return float("nan"), 0.0
        below = np.cumsum(negatives) - negatives
        twice = _dot(positives, 2 * below + negatives)
        bound = _dot(positives, negatives) / (2 * p * n) if self.estimated else 0.0
        return twice / (2 * p * n), bound

    def merge(self, other: Scores) -> None:
        """Add what another one counted.

        Raises:
            UnlikeStateError: its options differ.
        """
        if other.options != self.options:
            raise UnlikeStateError("scores", self.options, other.options)
        other._fold()
        self._fold()
        self.lists += other.lists
        if other.estimated and not self.estimated:
            self._bin()
        theirs = list(other._columns)
        if self.estimated and not other.estimated:
            theirs[0] = binned(unordered(theirs[0]))
        self._absorb(theirs)

    def state_dict(self) -> dict[str, Any]:
        """Plain integers and strings; equal content gives equal state."""
        self._fold()
        return {
            "version": VERSION,
            "options": msgspec.to_builtins(self.options),
            "estimated": int(self.estimated),
            "lists": self.lists,
            "columns": [column.tolist() for column in self._columns],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take the place of the content by what `state_dict` gave.

        Raises:
            StateVersionError: the version is not known.
            UnlikeStateError: its options differ.
        """
        check_saved("scores", state, VERSION, self.options)
        self._waiting, self._waits = [], 0
        self.estimated = bool(state["estimated"])
        self.lists = state["lists"]
        self._columns = [np.array(column, np.int64) for column in state["columns"]]

    def copy(self) -> Scores:
        """An independent one with the same content."""
        twin = Scores(self.options)
        twin.estimated, twin.lists = self.estimated, self.lists
        # Columns are replaced and never changed, so that both may have the same ones.
        twin._columns, twin._waits = self._columns, self._waits
        twin._waiting = self._waiting.copy()
        return twin

    def dump(self) -> Iterator[bytes]:
        """The content as msgpack, in pieces; equal content gives equal bytes."""
        self._fold()
        yield array_of(5) + packed(self.estimated) + packed(self.lists)
        for column in self._columns:
            yield packed(integers(column))

    def adopt(self, saved: bytes | msgspec.Raw) -> None:
        """Take the place of the content by what `dump` gave.

        Raises:
            ValueError: it is not what that gave.
            msgspec.DecodeError: it is no msgpack of that kind.
        """
        estimated, lists, *columns = msgspec.msgpack.decode(saved, type=_Saved)
        self._columns = columns_of(columns, columns=3)
        self.estimated, self.lists = estimated, lists
        self._waiting, self._waits = [], 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scores) and self.state_dict() == other.state_dict()

    __hash__ = None  # type: ignore[assignment]  # changes as it counts

    def _fold(self) -> None:
        if not self._waiting:
            return
        scores = np.concatenate([scores for scores, _ in self._waiting])
        positive = np.concatenate([positive for _, positive in self._waiting])
        self._waiting, self._waits = [], 0
        keys = binned(scores) if self.estimated else ordered(scores)
        self._absorb([keys, positive, 1 - positive])

    def _absorb(self, columns: list[IntArray]) -> None:
        pairs = zip(self._columns, columns, strict=True)
        self._columns = _grouped([np.concatenate(pair) for pair in pairs])
        if self._columns[0].size > self.options.cap and not self.estimated:
            self._bin()

    def _bin(self) -> None:
        keys, *counts = self._columns
        self.estimated = True
        self._columns = _grouped([binned(unordered(keys)), *counts])


def _grouped(columns: list[IntArray]) -> list[IntArray]:
    if not columns[0].size:
        return columns
    order = np.argsort(columns[0], kind="stable")
    keys, *counts = (column[order] for column in columns)
    starts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    return [keys[starts], *(np.add.reduceat(column, starts) for column in counts)]


def _dot(left: IntArray, right: IntArray) -> int:
    # Python's integers: the product of two large counts may pass 2^63.
    return sum(a * b for a, b in zip(left.tolist(), right.tolist(), strict=True) if a)
