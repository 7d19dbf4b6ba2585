"""What a rank metric sees: cells of hits, of all lists at once or of each list by itself."""

from __future__ import annotations

import math
from typing import Any, Protocol, TypeAlias

import msgspec
import numpy as np

from streameval.statistics.arrays import FloatArray, IntArray

Total: TypeAlias = Any
"""A sum over all lists (float), or one sum per list (float array of shape (lists,))."""


class HitCells(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Hits at the ranks up to a cut-off, as columns of equal length.

    Attributes:
        rank: from 1.
        hits: how many hits the cell stands for.
        ordinals: sum over those hits of j, where the hit is the j-th of its list.
        size: what the cells are split by: interacted items, list length, or the smaller of both.
        gain: gain of the hit (1 for ids without gains).
        owner: the list a cell belongs to, or None where a cell stands for many lists.
        lists: how many lists owners count to.
    """

    rank: IntArray
    hits: IntArray
    ordinals: IntArray
    size: IntArray
    gain: FloatArray
    owner: IntArray | None = None
    lists: int = 0

    @property
    def owners(self) -> IntArray:
        """The list of each cell; without any where cells stand for many lists."""
        return np.zeros(0, np.int64) if self.owner is None else self.owner

    def total(self, contributions: FloatArray | IntArray) -> Total:
        """Add up what each cell contributes.

        Args:
            contributions: one finite number per cell.

        Returns:
            The sum over all lists, correctly rounded; or one sum per list, shape (lists,).
        """
        if self.owner is None:
            return math.fsum(contributions.tolist())
        return np.bincount(self.owner, weights=contributions, minlength=self.lists)


class HitsView(Protocol):
    """Where the hits are; what a metric that reads `hits` is a function of.

    `k` is the cut-off, None for the whole list.
    """

    def by_interacted(self, k: int | None) -> HitCells:
        """Hits up to rank k; `size` is the number of items interacted with."""

    def by_length(self, k: int | None) -> HitCells:
        """Hits up to rank k; `size` is the length of the list."""

    def by_ideal(self, k: int | None) -> HitCells:
        """Hits up to rank k; `size` is the smaller of interacted items and list length."""

    def first(self, k: int | None) -> HitCells:
        """The first hit of each list that has one up to rank k; `size` is 1."""

    def items(self, k: int | None) -> Total:
        """How many items were shown up to rank k."""

    def wanted(self) -> Total:
        """How many items were interacted with."""
