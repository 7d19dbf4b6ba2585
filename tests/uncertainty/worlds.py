"""Group sums by hand and of a simulated month of users."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from streameval.statistics.intervals import GroupSums


def sums(
    numerators: ArrayLike, denominators: ArrayLike, days: ArrayLike | None = None
) -> GroupSums:
    """Group sums of one day (two vectors) or of several (two tables)."""
    above = np.atleast_2d(np.asarray(numerators, np.float64))
    below = np.atleast_2d(np.asarray(denominators, np.int64))
    when = np.arange(len(above)) if days is None else np.asarray(days)
    return GroupSums(when.astype(np.int64), above, below)


def binomial(
    seed: int, rate: float, *, groups: int = 256, lists: int = 400, days: int = 1
) -> GroupSums:
    """Clicks on independent lists."""
    random = np.random.default_rng(seed)
    shown = random.poisson(lists, (days, groups))
    return sums(random.binomial(shown, rate), shown)
