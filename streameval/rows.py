"""The items of a list that count, where an item may stand several times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from streameval.events import Id

Repeats: TypeAlias = Literal["every", "compact_before_cut", "compact_after_cut"]
"""Whether an item counts each time, or the list is closed up to its first places before it is
cut, or after its first rows are taken."""


def rows_of(items: Sequence[Id], k: int | None, repeats: str, rows: int) -> Sequence[Id]:
    """The first k items; of all rows, or of the first `rows` (or k), closed up where it says so.

    Example:
        >>> rows_of(["a", "a", "b", "c"], 2, "compact_after_cut", 3)
        ['a', 'b']
    """
    if repeats == "compact_before_cut":
        return list(dict.fromkeys(items))[:k]
    if repeats == "compact_after_cut":
        return list(dict.fromkeys(items[: rows or k]))[:k]
    return items[:k]
