"""In how many pairs a list's positive items are scored above its negative ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import msgspec
import numpy as np
from msgspec.msgpack import Ext

from streameval.errors import UnlikeStateError
from streameval.events import Batch
from streameval.statistics.arrays import IntArray
from streameval.statistics.cells import Cells
from streameval.statistics.packing import Count, array_of, packed
from streameval.statistics.samples import Sampling, samples
from streameval.statistics.saved import check_saved

VERSION = 1
_MOST_WAITING = 8_192
_Saved: TypeAlias = tuple[Count, list[Ext]]


class RankSumsOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Identity of a RankSums statistic; unlike ones do not merge.

    Attributes:
        sampling: which items are positive, and how scores are rounded.
    """

    sampling: Sampling = Sampling()


class RankSums:
    """Per list, twice the number of pairs in the right order (ties one half), an integer.

    Kept as the sum over lists of equal numbers of positives and negatives: Mann and Whitney's U.

    Example:
        >>> sums = RankSums(RankSumsOptions())
        >>> sums.update_many(
        ...     Batch(recommendations=[["a", "b"]], interactions=[["a"]], scores=[[0.9, 0.2]])
        ... )
        >>> sums.cells().rows()
        [[1, 1, 2, 1]]
    """

    __slots__ = ("_cells", "_waiting", "lists", "options")

    def __init__(self, options: RankSumsOptions) -> None:
        self.options = options
        self.lists = 0
        self._cells = Cells(keys=2, counts=2)
        self._waiting: list[tuple[int, int, int]] = []

    def update_many(self, batch: Batch) -> None:
        """Count many lists; those without scores are left out."""
        for scores, positive in samples(batch, self.options.sampling):
            self.lists += 1
            places = np.searchsorted(np.sort(scores[~positive]), scores[positive], "left")
            ends = np.searchsorted(np.sort(scores[~positive]), scores[positive], "right")
            p = int(positive.sum())
            self._waiting.append((p, scores.size - p, int((places + ends).sum())))
        if len(self._waiting) >= _MOST_WAITING:
            self._fold()

    def cells(self) -> Cells:
        """(positives, negatives) -> (twice the pairs in the right order, lists)."""
        self._fold()
        return self._cells

    def merge(self, other: RankSums) -> None:
        """Add what another one counted.

        Raises:
            UnlikeStateError: its options differ.
        """
        if other.options != self.options:
            raise UnlikeStateError("rank sums", self.options, other.options)
        self._fold()
        self.lists += other.lists
        self._cells.merge(other.cells())

    def state_dict(self) -> dict[str, Any]:
        """Plain integers and strings; equal content gives equal state."""
        options = msgspec.to_builtins(self.options)
        rows = self.cells().rows()
        return {"version": VERSION, "options": options, "lists": self.lists, "cells": rows}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take the place of the content by what `state_dict` gave.

        Raises:
            StateVersionError: the version is not known.
            UnlikeStateError: its options differ.
        """
        check_saved("rank sums", state, VERSION, self.options)
        self._waiting = []
        self.lists = state["lists"]
        self._cells.load(state["cells"])

    def copy(self) -> RankSums:
        """An independent one with the same content."""
        twin = RankSums(self.options)
        twin.lists, twin._cells, twin._waiting = self.lists, self._cells.copy(), [*self._waiting]
        return twin

    def dump(self) -> Iterator[bytes]:
        """The content as msgpack, in pieces; equal content gives equal bytes."""
        cells = self.cells()
        yield array_of(2) + packed(self.lists)
        yield from cells.dump()

    def adopt(self, saved: bytes | msgspec.Raw) -> None:
        """Take the place of the content by what `dump` gave.

        Raises:
            ValueError: it is not what that gave.
            msgspec.DecodeError: it is no msgpack of that kind.
        """
        lists, columns = msgspec.msgpack.decode(saved, type=_Saved)
        self._cells.adopt(columns)
        self.lists, self._waiting = lists, []

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RankSums) and self.state_dict() == other.state_dict()

    __hash__ = None  # type: ignore[assignment]  # changes as it counts

    def _fold(self) -> None:
        if self._waiting:
            p, n, twice = (
                np.array(column, np.int64) for column in zip(*self._waiting, strict=True)
            )
            ones: IntArray = np.ones_like(p)
            self._cells.add([p, n], [twice, ones])
            self._waiting = []
