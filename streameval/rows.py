"""The items of a list that count, where an item may stand several times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from streameval.events import Id

Repeats: TypeAlias = Literal["every", "compact_after_cut"]
"""Whether an item counts each time, or the list is closed up after its first rows are taken."""


def rows_of(items: Sequence[Id], k: int | None, repeats: str, rows: int) -> Sequence[Id]:
    """The first k items; with "compact_after_cut" of the first `rows` (or k) rows, closed up.

    Example:
        >>> rows_of(["a", "a", "b", "c"], 2, "compact_after_cut", 3)
        ['a', 'b']
    """
    if repeats == "compact_after_cut":
        return list(dict.fromkeys(items[: rows or k]))[:k]
    return items[:k]
