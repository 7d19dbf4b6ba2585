"""The kernel: one pass over lists of Python ids, which checks them and finds the hits of each.

It is compiled where building could compile it, and in Python elsewhere; both give the same arrays.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from streameval.events import Matches
from streameval.events.batch import IntArray
from streameval.events.ids import IdKind
from streameval.events.lines import LineBlock
from streameval.events.ragged import Ragged
from streameval.statistics.kernel.interface import BLOCK, INTERFACE, MatchBytes

_COMPILED = "streameval.statistics.kernel._match"


def _can_be_used() -> bool:
    """True if the compiled kernel is here, and made from the source of this version."""
    try:
        compiled = import_module(_COMPILED)
    except ImportError:
        return False
    return bool(compiled.INTERFACE == INTERFACE)


COMPILED: Final = os.environ.get("STREAMEVAL_PURE") != "1" and _can_be_used()
"""Whether the compiled kernel is in use."""

KERNEL: Final[Literal["compiled", "python"]] = "compiled" if COMPILED else "python"
"""The kernel in use."""

if TYPE_CHECKING or not COMPILED:
    from streameval.statistics.kernel.pure import Block
    from streameval.statistics.kernel.pure import lines_of as _lines_of
    from streameval.statistics.kernel.pure import match as _match
    from streameval.statistics.kernel.pure import match_codes as _match_codes
else:
    _compiled = import_module(_COMPILED)
    Block, _lines_of = _compiled.Block, _compiled.lines_of
    _match, _match_codes = _compiled.match, _compiled.match_codes

Scanner: Final[Any] = import_module(_COMPILED).Scanner if COMPILED else None
"""Reads records of JSON into columns; None where nothing is compiled.

`Scanner(names, unit, are_text, most_shown, most_acts, depth, every)` takes the names of the fields
(recommendations, interactions, time, user, event id, labels...; None for one that is not read), the
unit of the time or "", whether ids are text, the longest list, the most interactions, and a search.
`scan(values, are_items)` gives, for the plain records of a sequence in their order: the columns of
`match`, with the indices of all other records as `skipped`; the codes and names of the users, the
event ids and each label; and the times in microseconds. With `are_items`, there are only `skipped`,
the lengths of the lists, and the codes and names of their items. `scan_block(block, starts, stops,
are_items)` gives the same for records between bounds of a block.
"""

WHOLE: Final = sys.maxsize
"""The depth of whole lists."""

_HEAD: Final = 5

_TYPES: Final = (*[np.int64] * 7, np.float64, np.int64, np.float64)
"""Types of the columns."""

__all__ = [
    "BLOCK",
    "COMPILED",
    "KERNEL",
    "WHOLE",
    "Block",
    "Scanner",
    "block_lines",
    "match",
    "match_codes",
    "match_of_row",
    "matches_of",
]


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

    A row is skipped if its list is not a list or tuple, its interactions are not a list, tuple, set
    or dict, an id is not a built-in id of the kind, a gain is not a built-in number up to 2^1000,
    or, unless `sound`, an id is padding, or two or more interactions in order are all marks (0 and
    1).

    Args:
        lists: one list of item ids per row.
        interactions: one collection of item ids, or item id -> gain, per row.
        kind: the kind of all ids.
        depth: ranks that are searched.
        every: whether an item is a hit at each of its ranks, not only at the first.
        sound: whether all rows are known to keep the rules of lists.

    Example:
        >>> found = match([["a", "b", "c"], ["a", ""]], [["c", "z"], []], "text")
        >>> found.skipped.tolist(), found.interacted.tolist(), found.length.tolist()
        ([1], [2, 0], [3, 0])
        >>> found.list_index.tolist(), found.rank_index.tolist()
        ([0], [2])
    """
    columns = _match(list(lists), list(interactions), kind, depth, every, sound)
    return matches_of(columns, depth, every)


def match_codes(lists: Ragged, interactions: Ragged, depth: int, *, every: bool) -> Matches:
    """The hits of lists of integer codes, all of which keep the rules of lists; see `match`.

    Example:
        >>> shown = Ragged(np.array([7, 8, 7, 9]), np.array([0, 3, 4]))
        >>> acts = Ragged(np.array([7, 7, 8]), np.array([0, 2, 3]))
        >>> found = match_codes(shown, acts, WHOLE, every=False)
        >>> found.interacted.tolist(), found.list_index.tolist(), found.rank_index.tolist()
        ([1, 1], [0], [0])
    """
    list_columns, interaction_columns = (
        (np.ascontiguousarray(part.values, np.int64), np.ascontiguousarray(part.offsets, np.int64))
        for part in (lists, interactions)
    )
    columns = _match_codes(*list_columns, *interaction_columns, depth, every)
    return matches_of(columns, depth, every)


def block_lines(block: bytes, start: int, first: int) -> tuple[LineBlock, Sequence[int], int]:
    r"""The lines of a block that are not blank, their numbers, and the number of the next line.

    A line ends with a newline; what follows the last one is not a line.

    Args:
        block: the bytes.
        start: where the first line starts.
        first: the number of the first line.

    Example:
        >>> lines, numbers, behind = block_lines(b"a\n \nbc\nd", 0, 7)
        >>> [*lines], numbers, behind
        ([b'a', b'bc'], [7, 9], 10)
    """
    *columns, count = _lines_of(block, start)
    starts, stops, numbers = (np.frombuffer(column, np.int64) for column in columns)
    are_all = numbers.size == count
    offsets = range(first, first + count) if are_all else (numbers + first).tolist()
    return LineBlock(block, starts, stops), offsets, first + count


def matches_of(columns: MatchBytes, depth: int, every: bool) -> Matches:  # noqa: FBT001  as `Block`
    """The columns of the kernel as arrays."""
    arrays: list[Any] = list(map(np.frombuffer, columns, _TYPES))
    return Matches(depth, every, *arrays)


def match_of_row(row: bytes, depth: int, every: bool) -> tuple[Matches, IntArray]:  # noqa: FBT001  as `Block`
    """The hits of a row of `Block.rows`, of a block of this search, and its ranks."""
    numbers = np.frombuffer(row, np.int64)
    hits, gains = numbers[3:_HEAD].tolist()
    ends = np.cumsum([_HEAD, hits, hits, hits if gains else 0, gains])
    rank_index, item, gain, all_gains, ranks = np.split(numbers[_HEAD:], ends[1:] - _HEAD)
    none, list_index = numbers[:0], np.zeros(hits, np.int64)
    graded = np.zeros(1 if gains else 0, np.int64)
    reals = gain.view(np.float64), graded, all_gains.view(np.float64)
    counts = numbers[:1], numbers[1:2], numbers[2:3]
    columns: list[Any] = [none, *counts, list_index, rank_index, item, *reals]
    return Matches(depth, every, *columns), ranks
