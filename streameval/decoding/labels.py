"""Values of labels and segments as text: what series are named by."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final

from streameval.decoding.invalid import Refusal, check_bytes, shown

MAX_LABEL_BYTES: Final = 256

_OURS = re.compile(r"__+(missing|other)__")

MISSING_LABEL = "__missing__"
"""The label value of records that have none."""


def label_text(value: object, field: str = "label", most: int = MAX_LABEL_BYTES) -> str:
    """A label value as text; integers and booleans as JSON writes them.

    `__missing__` and `__other__` in the data get one more underscore in front, so that they are
    never taken for ours.

    Args:
        value: as it was decoded.
        field: where it stands; for messages.
        most: bytes of UTF-8 that it may have.

    Raises:
        Refusal: it is none of these, or too long.

    Example:
        >>> label_text("a"), label_text(7), label_text(True), label_text(None)
        ('a', '7', 'true', '__missing__')
        >>> label_text("__missing__"), label_text("___other__")
        ('___missing__', '____other__')
    """
    if type(value) is str:
        check_bytes(value, most, field, "label_too_long")
        return f"_{value}" if _OURS.fullmatch(value) else value
    if value is None:
        return MISSING_LABEL
    if type(value) is bool:
        return "true" if value else "false"
    if type(value) is int:
        return check_bytes(str(value), most, field, "label_too_long")
    problem = f"{field}: {shown(value)} is neither a string nor an integer nor a boolean"
    raise Refusal("invalid_label", problem)


def label_texts(values: Iterable[object], most: int = MAX_LABEL_BYTES) -> tuple[str, ...]:
    """Several label values as text."""
    return tuple(label_text(value, most=most) for value in values)


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
