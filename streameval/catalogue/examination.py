"""Chances that users look at a rank, an input of the metrics that correct for the position."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Final

import numpy as np

from streameval.errors import MetricError
from streameval.events.ids import is_number
from streameval.statistics.arrays import FloatArray, IntArray

_MOST: Final = 10_000
"""Ranks with a chance of their own."""


class Examination:
    """The chance that a user looks at each rank, relative to the first.

    Args:
        chances: of rank 1, 2, ..., above 0 and at most 1; deeper ranks have the last one.

    Raises:
        MetricError: a chance is not such a number, or there are none, or more than 10,000.

    Example:
        >>> Examination([1.0, 0.5, 0.25]).at(np.array([1, 2, 3, 9])).tolist()
        [1.0, 0.5, 0.25, 0.25]
    """

    __slots__ = ("chances",)

    ids: Final = None
    version: Final = None

    def __init__(self, chances: Sequence[float]) -> None:
        if isinstance(chances, (str, bytes)) or not isinstance(chances, Iterable):
            raise MetricError(f"examination={chances!r:.80}: give the chance of each rank")
        listed = [*chances]
        if not 0 < len(listed) <= _MOST:
            raise MetricError(f"examination has {len(listed):,} chances; give 1 to {_MOST:,}")
        for rank, chance in enumerate(listed, 1):
            if not is_number(chance) or not 0 < chance <= 1:
                problem = f"the chance of rank {rank} is {chance!r:.80}"
                raise MetricError(f"examination: {problem}; give a number above 0, at most 1")
        self.chances = tuple(map(float, listed))

    def at(self, ranks: IntArray) -> FloatArray:
        """The chance of each rank, shape (n,). Ranks begin with 1."""
        places = np.minimum(ranks, len(self.chances)) - 1
        chosen: FloatArray = np.array(self.chances)[np.maximum(places, 0)]
        return chosen

    @property
    def identity(self) -> str:
        """A digest of the content."""
        text = ",".join(map(repr, self.chances))
        digest = blake2b(text.encode(), digest_size=16).hexdigest()
        return f"{len(self.chances)} parts, blake2b {digest}"
