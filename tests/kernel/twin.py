"""The kernel as its description says, in the slowest way; it needs nothing but Python.

`tests/kernel/stress.py` runs it where no package can be imported.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

LARGEST_GAIN = 2.0**1000
RESERVED = {"text": ("", "-1"), "integer": (-1, -100)}
MARKS = {"text": ("0", "1"), "integer": (0, 1)}
TYPES = {"text": str, "integer": int}
REALS = (7, 9)
"""The columns of floats; the others have integers."""


def match(
    lists: Sequence[Any],
    interactions: Sequence[Any],
    kind: str,
    depth: int,
    every: bool,  # noqa: FBT001  as the kernels
    sound: bool,  # noqa: FBT001  likewise
) -> tuple[bytes, ...]:
    columns: list[list[Any]] = [[] for _ in range(10)]
    (
        skipped,
        interacted,
        interaction_count,
        length,
        list_index,
        rank_index,
        item,
        gain,
        graded,
        gains,
    ) = columns
    for row, (items, acts) in enumerate(zip(lists, interactions, strict=True)):
        if is_skipped(items, acts, kind, sound=sound):
            skipped.append(row)
            items, acts = [], []  # noqa: PLW2901  a skipped row looks like this one
        gain_of = dict(acts) if type(acts) is dict else dict.fromkeys(acts, 1.0)
        interacted.append(len(gain_of))
        interaction_count.append(len(acts))
        length.append(min(len(items), depth))
        numbers: dict[Any, int] = {}
        for at, candidate in enumerate(items[:depth]):
            if candidate in gain_of and (every or candidate not in numbers):
                list_index.append(row)
                rank_index.append(at)
                item.append(numbers.setdefault(candidate, len(numbers)))
                gain.append(float(gain_of[candidate]))
        if type(acts) is dict and acts:
            graded.append(row)
            gains.extend(map(float, acts.values()))
    if not graded:
        gain.clear()
    return tuple(
        array("d" if at in REALS else "q", column).tobytes() for at, column in enumerate(columns)
    )


def rows(
    lists: Sequence[Any],
    interactions: Sequence[Any],
    ranks: Sequence[Any] | None,
    *options: Any,
) -> list[bytes]:
    """The result of `Block.rows` for a block with these rows, all of which are matched."""
    made = []
    for row, pair in enumerate(zip(lists, interactions, strict=True)):
        columns = match([pair[0]], [pair[1]], *options)
        _, interacted, interaction_count, length, _, rank_index, item, gain, _, gains = columns
        counts = array("q", [len(rank_index) // 8, len(gains) // 8]).tobytes()
        explicit = array("q", [] if ranks is None else ranks[row]).tobytes()
        parts = (
            interacted,
            interaction_count,
            length,
            counts,
            rank_index,
            item,
            gain,
            gains,
            explicit,
        )
        made.append(b"".join(parts))
    return made


def are_ranks(ranks: Any, items: Any) -> bool:
    if type(ranks) not in (list, tuple) or len(ranks) != len(items):
        return False
    return all(type(rank) is int and 1 <= rank < 2**31 for rank in ranks)


def is_skipped(items: Any, acts: Any, kind: str, *, sound: bool) -> bool:
    if type(items) not in (list, tuple) or type(acts) not in (list, tuple, set, frozenset, dict):
        return True
    if any(type(shown) is not TYPES[kind] for shown in [*items, *acts]):
        return True
    if type(acts) is dict and not all(map(_is_gain, acts.values())):
        return True
    marks = type(acts) in (list, tuple) and len(acts) > 1
    marks = marks and all(act in MARKS[kind] for act in acts)
    return not sound and (marks or any(shown in RESERVED[kind] for shown in [*items, *acts]))


def _is_gain(value: Any) -> bool:
    return type(value) in (int, float) and -LARGEST_GAIN <= value <= LARGEST_GAIN
