"""The kind of ids: text or integers, never both in one accumulator.

Functions raise InvalidEventError for an id that is neither, or that is of the other kind.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Iterable, Mapping, Sequence
from numbers import Real
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from streameval.events import Id
from streameval.events.errors import InvalidEventError, MetricError

IdKind: TypeAlias = Literal["text", "integer"]
"""The kind of an accumulator's ids; None before the first id."""

_INTEGERS = frozenset({int})
BUILT_IN: Final[Mapping[IdKind, frozenset[type]]] = {
    "text": frozenset({str}),
    "integer": _INTEGERS,
}
"""The types of built-in ids of each kind."""

_WITH_ARTICLE = {"text": "text", "integer": "an integer"}


def kind_of(item: Any, where: str) -> IdKind:
    """The kind of an id; `where` names it in the error."""
    if isinstance(item, str):
        return "text"
    # Booleans first, because NumPy before 2.0 warns of the index of its own; tensors always have
    # __index__, even tensors of floats.
    if not isinstance(item, (bool, np.bool_, np.ndarray)):
        try:
            operator.index(item)
        except TypeError:
            pass
        else:
            return "integer"
    hint = ""
    if isinstance(item, (float, np.floating)):
        hint = "; integers with missing values become floats"
    description = f"{where} is {item!r:.80}, of type {type(item).__name__}"
    raise InvalidEventError("invalid_id", f"{description}; ids are text or integers{hint}")


def of_kind(kind: IdKind | None, ids: Collection[Id], where: str) -> tuple[IdKind | None, Any]:
    """Ids as built-in strings or integers, all of one kind.

    `kind`: the required kind; None if the first id decides.

    Returns:
        Their kind (None without ids), and the ids, unchanged where possible.
    """
    if kind is not None and BUILT_IN[kind].issuperset(map(type, ids)):
        return kind, ids
    converted: list[Id] = []
    for index, item in enumerate(ids):
        id_kind = kind_of(item, f"{where}[{index}]")
        if kind is None:
            kind = id_kind
        if id_kind != kind:
            actual, expected = _WITH_ARTICLE[id_kind], "text" if kind == "text" else "integers"
            detail = f"{where}[{index}] is {item!r:.80}, {actual}, but the ids counted here are"
            detail = f"{detail} {expected}"
            remedy = "convert one side, for example with map(str, ...) or map(int, ...)"
            raise InvalidEventError("unlike_ids", f"{detail}; {remedy}")
        converted.append(str.__str__(item) if isinstance(item, str) else int(operator.index(item)))
    return kind, converted


def is_number(number: Any) -> bool:
    """True if this is a finite Python or NumPy number; booleans are not."""
    try:
        return type(number) is not bool and isinstance(number, Real) and math.isfinite(number)
    except OverflowError:
        # An integer beyond the largest float.
        return False


def ids_of_input(name: str, ids: Iterable[Id]) -> tuple[IdKind | None, Sequence[Id]]:
    """`of_kind` for the ids of a catalogue, popularity or similarity.

    Raises:
        MetricError: instead of InvalidEventError.
    """
    id_list = list(ids)
    try:
        kind = kind_of(id_list[0], f"{name}[0]") if id_list else None
        return of_kind(kind, id_list, name)
    except InvalidEventError as error:
        raise MetricError(f"{error.detail}.") from error
