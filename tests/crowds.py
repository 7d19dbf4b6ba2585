"""Audiences of variants for tests."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streameval.statistics.arrays import IntArray
from streameval.statistics.intervals import Audience

EVERYBODY = 2**64


def audience(
    users: NDArray[np.uint64],
    *,
    lists: int = 1_000,
    anonymous: int = 0,
    threshold: int = EVERYBODY,
    days: tuple[IntArray, IntArray] | None = None,
) -> Audience:
    """An audience of distinct users.

    `days`: first and last day of each user; by default all come on day 0 only.
    """
    hashes, place = np.unique(users, return_index=True)
    first, last = (np.zeros(users.size, np.int64),) * 2 if days is None else days
    listed = np.array([lists]), np.array([anonymous])
    return Audience(hashes, first[place], last[place], threshold, np.array([0]), *listed)


def audience_of(
    users: NDArray[np.uint64], days: IntArray, named: NDArray[np.bool_] | None = None
) -> Audience:
    """The audience of lists, by the hash of each list's user, its day, and whether it has an id."""
    is_known = np.ones(users.size, np.bool_) if named is None else named
    hashes, user = np.unique(users[is_known], return_inverse=True)
    first, last = np.full(hashes.size, np.iinfo(np.int64).max), np.full(hashes.size, -1)
    np.minimum.at(first, user, days[is_known])
    np.maximum.at(last, user, days[is_known])
    every, listed = np.unique(days, return_counts=True)
    nameless = np.bincount(np.searchsorted(every, days[~is_known]), minlength=every.size)
    return Audience(hashes, first, last, EVERYBODY, every, listed, nameless)
