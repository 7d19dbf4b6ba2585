"""The kind of ids: text or integers, never both in one accumulator.

InvalidEventError is raised for an id that is neither, or of the other kind than those before it.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from numbers import Real
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from streameval.errors import InvalidEventError, MetricError
from streameval.events import Id

IdKind: TypeAlias = Literal["text", "integer"]
"""What the ids of an accumulator are; None where no id has decided yet."""

_INTEGERS = frozenset({int})
_SAID = {"text": "text", "integer": "an integer"}


def _integers(ids: Iterable[object]) -> None:
    if not _INTEGERS.issuperset(map(type, ids)):
        raise TypeError


def _undecided(_: Iterable[object]) -> None:
    raise TypeError


CHECKS: Final[Mapping[IdKind | None, Callable[[Iterable[Any]], object]]] = {
    "text": "".join,
    "integer": _integers,
    None: _undecided,
}
"""By kind, what raises a TypeError for ids of another kind, and for integers not Python's own.

They are asked about every list that is counted, so they are loops of C only.
"""


def all_are(kind: IdKind | None, ids: Iterable[Any]) -> bool:
    """Whether all ids are of a kind, and integers Python's own; False where none is decided."""
    try:
        CHECKS[kind](ids)
    except TypeError:
        return False
    return True


def kind_of(item: object, where: str) -> IdKind:
    """What an id is."""
    if isinstance(item, str):
        return "text"
    if hasattr(item, "__index__") and not isinstance(item, (bool, np.bool_, np.ndarray)):
        return "integer"
    hint = ""
    if isinstance(item, (float, np.floating)):
        hint = "; integers with missing values become floats"
    found = f"{where} is {item!r:.80}, of type {type(item).__name__}"
    raise InvalidEventError("invalid_id", f"{found}; ids are text or integers{hint}")


def of_kind(kind: IdKind | None, ids: Collection[Id], where: str) -> tuple[IdKind | None, Any]:
    """Ids as Python's own text and integers, all of one kind.

    `kind`: that they must have; None where the first of them decides.

    Returns:
        Their kind, None without ids; and the ids, as given if they need no change.
    """
    if all_are(kind, ids):
        return kind, ids
    known: list[Id] = []
    for place, item in enumerate(ids):
        found = kind_of(item, f"{where}[{place}]")
        if kind is None:
            kind = found
        if found != kind:
            here, there = _SAID[found], "text" if kind == "text" else "integers"
            detail = (
                f"{where}[{place}] is {item!r:.80}, {here}, and the ids counted here are {there}"
            )
            remedy = "convert one side, for example by map(str, ...) or map(int, ...)"
            raise InvalidEventError("unlike_ids", f"{detail}; {remedy}")
        known.append(str.__str__(item) if isinstance(item, str) else int(operator.index(item)))
    return kind, known


def is_number(found: Any) -> bool:
    """Whether it is a finite number of Python or NumPy, and no boolean."""
    try:
        return type(found) is not bool and isinstance(found, Real) and math.isfinite(found)
    except OverflowError:
        # An integer larger than any float.
        return False


def ids_of_input(name: str, ids: Iterable[Id]) -> tuple[IdKind | None, Sequence[Id]]:
    """The same for a catalogue, popularity or similarity; errors are MetricErrors."""
    known = list(ids)
    try:
        kind = kind_of(known[0], f"{name}[0]") if known else None
        return of_kind(kind, known, name)
    except InvalidEventError as error:
        raise MetricError(f"{error.detail}.") from error
