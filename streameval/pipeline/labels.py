"""Values of labels and segments as text: what series are named by."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from streameval.pipeline.invalid import Refusal, shown

MISSING_LABEL = "__missing__"
"""The label value of records that have none."""


def label_text(value: object, field: str = "label") -> str:
    """A label value as text; integers and booleans as JSON writes them.

    Raises:
        Refusal: it is none of these.

    Example:
        >>> label_text("a"), label_text(7), label_text(True), label_text(None)
        ('a', '7', 'true', '__missing__')
    """
    if type(value) is str:
        return value
    if value is None:
        return MISSING_LABEL
    if type(value) is bool:
        return "true" if value else "false"
    if type(value) is int:
        return str(value)
    problem = f"{field}: {shown(value)} is neither a string nor an integer nor a boolean"
    raise Refusal("invalid_label", problem)


def label_texts(values: Iterable[object]) -> tuple[str, ...]:
    """Several label values as text."""
    return tuple(label_text(value) for value in values)


class Remembered(dict[Any, tuple[str, ...]]):
    """Values as they were decoded -> the same as text; what is asked for first is made then.

    Example:
        >>> texts = Remembered(label_texts)
        >>> texts["a", 7], texts
        (('a', '7'), {('a', 7): ('a', '7')})
    """

    def __init__(self, make: Callable[[Any], tuple[str, ...]]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, values: Any) -> tuple[str, ...]:
        made = self[values] = self._make(values)
        return made
