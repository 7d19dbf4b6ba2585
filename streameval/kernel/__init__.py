"""The kernel: one pass over lists of Python ids, which checks them and finds the hits of each."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streameval.events.ids import IdKind
from streameval.kernel.pure import Block, Columns
from streameval.kernel.pure import match as _match

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

WHOLE = sys.maxsize
"""The depth of whole lists."""

__all__ = ["WHOLE", "Block", "Matches", "match", "matches_of"]


class Matches(NamedTuple):
    """The hits of many lists: places whose item is among the interactions, up to a depth.

    Attributes:
        odd: rows that the kernel does not take; they have no length, interactions or hits here.
        interacted: distinct interactions of each row.
        given: interactions of each row, with repeats.
        length: items of each row, up to the depth.
        owner: row of each hit, ascending.
        place: its place in the list, from 0, ascending in a row.
        item: number of the distinct item within its row, from 0.
        gain: gain of each hit; empty if no interactions have gains.
        graded: rows whose interactions have gains, ascending.
        gains: the gains of these rows, one row after the other.
    """

    odd: IntArray
    interacted: IntArray
    given: IntArray
    length: IntArray
    owner: IntArray
    place: IntArray
    item: IntArray
    gain: FloatArray
    graded: IntArray
    gains: FloatArray


def match(
    lists: Sequence[Any],
    interactions: Sequence[Any],
    kind: IdKind,
    depth: int = WHOLE,
    *,
    every: bool = False,
    sound: bool = False,
) -> Matches:
    """Check the ids of many lists with their interactions, and find the hits.

    A row is odd if its list is not a list or tuple, its interactions are not a list, tuple, set or
    dict, an id is no built-in id of the kind, a gain is no built-in number up to 2^1000, or, unless
    `sound`, an id is padding, or two or more interactions in order are all marks (0 and 1).

    Args:
        lists: one list of item ids per row.
        interactions: one collection of item ids, or item id -> gain, per row.
        kind: the kind of all ids.
        depth: ranks that are searched.
        every: whether an item is a hit at each of its places, not only at the first.
        sound: whether all rows are known to keep the rules of lists.

    Example:
        >>> found = match([["a", "b", "c"], ["a", ""]], [["c", "z"], []], "text")
        >>> found.odd.tolist(), found.interacted.tolist(), found.length.tolist()
        ([1], [2, 0], [3, 0])
        >>> found.owner.tolist(), found.place.tolist()
        ([0], [2])
    """
    return matches_of(_match(list(lists), list(interactions), kind, depth, every, sound))


def matches_of(columns: Columns) -> Matches:
    """The columns of the kernel as arrays."""
    odd, interacted, given, length, owner, place, item, graded = (
        np.frombuffer(column, np.int64) for column in (*columns[:7], columns[8])
    )
    gain, gains = (np.frombuffer(columns[at], np.float64) for at in (7, 9))
    return Matches(
        odd, interacted, given, length, owner, place, item, gain, graded=graded, gains=gains
    )
