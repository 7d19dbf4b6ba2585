"""Values beside the items of a list: chances, predictions, prices, the ranker of each item."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from streameval.events.errors import InvalidEventError

ItemValue: TypeAlias = float | str | None
"""A number, a word, or None if unknown."""

PerItem: TypeAlias = Mapping[str, Sequence[ItemValue]]
"""Name -> one value for each item shown, in the order of the list."""

_NAMES, _NUMBERS, _WORDS = frozenset({str}), frozenset({float}), frozenset({str, type(None)})


def item_values(columns: Any, items: int, padded: int) -> dict[str, list[ItemValue]] | None:
    """Checked values of one list: floats, words and None; None if no name has any.

    `items`: number of items shown. `padded`: their number with padding, which may have values too.

    Raises:
        InvalidEventError: it is not a mapping of names to lists of the same length, or a value is
            neither a finite number nor a word.

    Example:
        >>> item_values({"propensity": [1, 0.25], "team": None}, 2, 2)
        {'propensity': [1.0, 0.25]}
        >>> item_values({"propensity": [0.5, 0.25, 0]}, 2, 3)
        {'propensity': [0.5, 0.25]}
    """
    if columns is None:
        return None
    # Built-in types first, because a check of Mapping is slow.
    is_mapping = isinstance(columns, (dict, Mapping))
    if not is_mapping or not (
        _NAMES.issuperset(map(type, columns)) or all(isinstance(name, str) for name in columns)
    ):
        raise _error(f"per_item: give a list of values for each name, found {columns!r:.80}")
    lists = {
        name: _values(name, column, items, padded)
        for name, column in columns.items()
        if column is not None
    }
    return lists or None


def _values(name: str, column: Any, items: int, padded: int) -> list[ItemValue]:
    entries = column.tolist() if isinstance(column, np.ndarray) else column
    if not isinstance(entries, (list, tuple)):
        raise _error(f"{name}: found {column!r:.80} instead of a list")
    values = [*entries]
    if len(values) == padded:
        del values[items:]
    if len(values) != items:
        raise _error(f"{name}: {len(values)} values for {items} items")
    kinds = set(map(type, values))
    # A sum of finite numbers may overflow; then they are looked at one by one.
    if (kinds == _NUMBERS and math.isfinite(sum(values))) or kinds <= _WORDS:
        return values
    return [_value(f"{name}[{index}]", value) for index, value in enumerate(values)]


def _value(where: str, value: Any) -> ItemValue:
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or isinstance(value, str):
        return value
    try:
        number = float(value) if isinstance(value, (int, float)) else math.nan
    except OverflowError:
        number = math.inf
    if isinstance(value, bool) or not math.isfinite(number):
        raise _error(f"{where}: {value!r:.80} is neither a finite number nor a word")
    return number


def _error(detail: str) -> InvalidEventError:
    return InvalidEventError("invalid_per_item", detail)
