"""Reads and checks the values of fields: ids, labels, gains, scores and positions.

Every function raises `Refusal` for a value that is not accepted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence, Sized
from typing import Any, Final, Literal

from streameval.decoding.invalid import Reason, Refusal
from streameval.events import LARGEST_GAIN, LARGEST_RANK, Id
from streameval.events.previews import preview

MAX_ID_BYTES: Final = 1_024
"""Most bytes of an id in UTF-8: a URL fits; longer text, stored with every count, is a mistake."""

_WORD = 63
_DIGITS = re.compile(r"-?[0-9]{1,1000}", re.ASCII)


def check_bytes(text: str, most: int, field: str, reason: Reason) -> str:
    """Return the text; refuse more than `most` bytes of UTF-8."""
    if 4 * len(text) > most:
        size = len(text.encode("utf-8", "surrogatepass"))
        if size > most:
            problem = f"{field}: {preview(text)} has {size:,} bytes; at most {most:,} are accepted"
            raise Refusal(reason, problem)
    return text


def text_id(value: object, field: str) -> str:
    """The id as text; an integer becomes its decimal text, so that 123 and "123" match."""
    if type(value) is str:
        return value
    if type(value) is int:
        return str(value)
    raise Refusal("invalid_id", f"{field}: {preview(value)} is neither a string nor an integer")


def integer_id(value: object, field: str) -> int:
    """The id as an integer; a string of digits becomes one, so that "123" and 123 match."""
    if type(value) is int:
        return value
    if type(value) is str and _DIGITS.fullmatch(value):
        return int(value)
    raise Refusal("invalid_id", f"{field}: {preview(value)} is not an integer, and ids = 'integer'")


class Ids:
    """Converts ids: all to text, or all to integers."""

    __slots__ = ("_convert", "_kind")

    def __init__(self, kind: Literal["string", "integer"]) -> None:
        self._kind = str if kind == "string" else int
        self._convert = text_id if kind == "string" else integer_id

    def id_of(self, value: object, field: str) -> Id:
        """The id in the configured kind."""
        item_id = self._convert(value, field)
        if type(item_id) is not int or item_id.bit_length() > _WORD:
            check_bytes(str(item_id), MAX_ID_BYTES, field, "id_too_long")
        return item_id

    def identity(self, value: object, field: str) -> Id:
        """One id that identifies a record: events with an empty one would be one event."""
        if value == "":
            raise Refusal("missing_field", f"{field} is empty")
        return self.id_of(value, field)

    def ids_of(self, values: Sequence[Any], field: str) -> list[Id]:
        """A list of ids in the configured kind."""
        kinds = set(map(type, values))
        if kinds == {str} == {self._kind} and 4 * max(map(len, values)) <= MAX_ID_BYTES:
            return list(values)
        if kinds == {int} and max(map(int.bit_length, values)) <= _WORD:
            return list(values) if self._kind is int else list(map(str, values))
        return [self.id_of(value, f"{field}[{i}]") for i, value in enumerate(values)]


MAX_LABEL_BYTES: Final = 256
"""Most bytes of a label, interaction type or word in UTF-8: Prometheus stores every value."""

_RESERVED = re.compile(r"__+(missing|other)__")

MISSING_LABEL = "__missing__"
"""Label value of records without one, or with an empty text."""


def label_text(value: object, field: str = "label") -> str:
    """A label value as text; integers and booleans as JSON writes them.

    `__missing__` and `__other__` are reserved, so in the data they get one more underscore.

    Example:
        >>> label_text("a"), label_text(7), label_text(True), label_text(None), label_text("")
        ('a', '7', 'true', '__missing__', '__missing__')
        >>> label_text("__missing__"), label_text("___other__")
        ('___missing__', '____other__')
    """
    if value is None or value == "":
        return MISSING_LABEL
    if type(value) is str:
        check_bytes(value, MAX_LABEL_BYTES, field, "label_too_long")
        return f"_{value}" if _RESERVED.fullmatch(value) else value
    if type(value) is bool:
        return "true" if value else "false"
    if type(value) is int:
        return check_bytes(str(value), MAX_LABEL_BYTES, field, "label_too_long")
    problem = f"{field}: {preview(value)} is neither a string nor an integer nor a boolean"
    raise Refusal("invalid_label", problem)


def label_texts(values: Iterable[object]) -> tuple[str, ...]:
    """Several label values as text."""
    return tuple(map(label_text, values))


def finite(value: object, field: str, reason: Reason) -> float:
    """A finite number as a float; as a gain, up to 2^1000. Booleans are refused."""
    try:
        number = float(value) if type(value) in (int, float) else math.nan  # type: ignore[arg-type]  # checked
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise Refusal(reason, f"{field}: {preview(value)} is not a finite number")
    if reason == "invalid_gain" and abs(number) > LARGEST_GAIN:
        raise Refusal(reason, f"{field}: {preview(value)} is beyond 2^1000, the largest gain")
    return number


def as_list(value: Any, field: str) -> list[Any]:
    """The value itself, which must be an array."""
    if type(value) is list:
        return value
    if value is None:
        raise Refusal("missing_field", f"{field} is absent or null; write [] for an empty list")
    raise Refusal("wrong_type", f"{field}: found {preview(value)} instead of an array")


def positions(content: Any, field: str, items: int, padded: int) -> list[int] | None:
    """Ranks of the items; None if all of them are null.

    `padded`: the number of items with padding, which may have ranks too.
    """
    ranks = _cut(as_list(content, field), items, padded)
    if ranks and ranks.count(None) == len(ranks) == items:
        return None
    for index, value in enumerate(ranks):
        if type(value) is not int or not 1 <= value <= LARGEST_RANK:
            problem = f"{field}[{index}]: {preview(value)} is not in 1 to {LARGEST_RANK:,}"
            raise Refusal("invalid_positions", problem)
    check_length(ranks, items, field, "invalid_positions")
    return ranks


def scores(content: Any, field: str, items: int, padded: int) -> list[float]:
    """Scores of the items shown; see `positions`."""
    entries = _cut(as_list(content, field), items, padded)
    numbers = [
        finite(value, f"{field}[{index}]", "invalid_score") for index, value in enumerate(entries)
    ]
    check_length(numbers, items, field, "invalid_score")
    return numbers


def _cut(numbers: list[Any], items: int, padded: int) -> list[Any]:
    return numbers[:items] if len(numbers) == padded else numbers


def check_length(numbers: Sized, items: int, field: str, reason: Reason) -> None:
    """Refuse a length other than the number of items."""
    if len(numbers) != items:
        raise Refusal(reason, f"{field}: {len(numbers)} numbers for {items} items")
