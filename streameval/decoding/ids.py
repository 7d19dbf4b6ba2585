"""Ids as they are written, and as they are compared."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, Literal

from streameval.decoding.invalid import Refusal, check_bytes, shown
from streameval.events import Id

MAX_ID_BYTES: Final = 1_024

_WORD = 63
_DIGITS = re.compile(r"-?[0-9]{1,1000}", re.ASCII)


def text_id(value: object, field: str) -> str:
    """The id as text; an integer becomes its decimal text, so that 123 and "123" match.

    Raises:
        Refusal: it is neither a string nor an integer.
    """
    if type(value) is str:
        return value
    if type(value) is int:
        return str(value)
    raise Refusal("invalid_id", f"{field}: {shown(value)} is neither a string nor an integer")


def integer_id(value: object, field: str) -> int:
    """The id as an integer; a string of digits becomes one, so that "123" and 123 match.

    Raises:
        Refusal: it is neither an integer nor a string of digits.
    """
    if type(value) is int:
        return value
    if type(value) is str and _DIGITS.fullmatch(value):
        return int(value)
    raise Refusal("invalid_id", f"{field}: {shown(value)} is no integer, and ids = 'integer'")


class Ids:
    """How ids are kept: all as text, or all as integers.

    Args:
        kind: which of both.
        most: bytes of UTF-8, or digits, that one may have.
    """

    __slots__ = ("_convert", "_kind", "_most")

    def __init__(self, kind: Literal["string", "integer"], most: int = MAX_ID_BYTES) -> None:
        self._kind = str if kind == "string" else int
        self._convert = text_id if kind == "string" else integer_id
        self._most = most

    def one(self, value: object, field: str) -> Id:
        """One id.

        Raises:
            Refusal: it is none, or too long.
        """
        found = self._convert(value, field)
        if type(found) is not int or found.bit_length() > _WORD:
            check_bytes(str(found), self._most, field, "id_too_long")
        return found

    def each(self, values: Sequence[Any], field: str) -> list[Id]:
        """A list of ids.

        Raises:
            Refusal: one of them is none, or too long; its place is named.
        """
        kinds = set(map(type, values))
        if kinds == {str} == {self._kind} and 4 * max(map(len, values)) <= self._most:
            return list(values)
        if kinds == {int} and max(map(int.bit_length, values)) <= _WORD:
            return list(values) if self._kind is int else list(map(str, values))
        return [self.one(value, f"{field}[{i}]") for i, value in enumerate(values)]
