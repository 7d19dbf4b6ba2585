"""Invalid records and their reasons."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import Literal, TypeAlias

import msgspec

Unreadable: TypeAlias = Literal[
    "not_framed",
    "unknown_schema",
    "unusable_schema",
    "not_of_its_schema",
    "not_utf8",
    "not_json",
    "nested_too_deeply",
    "not_an_object",
    "number_too_large",
]
"""Why the bytes of a record say nothing."""

Reason: TypeAlias = Literal[
    Unreadable,
    "missing_field",
    "wrong_type",
    "invalid_id",
    "id_too_long",
    "invalid_gain",
    "invalid_score",
    "invalid_positions",
    "invalid_time",
    "invalid_label",
    "label_too_long",
    "too_many_recommendations",
    "too_many_interactions",
    "skipped",
]
"""Why a record is invalid; `REASONS` explains each."""

REASONS: MappingProxyType[Reason, str] = MappingProxyType(
    {
        "not_framed": "The bytes do not begin with a zero byte and a schema's id of four bytes.",
        "unknown_schema": "The schema registry has no schema of the record's id.",
        "unusable_schema": "The schema is not of the configured format, or cannot be used.",
        "not_of_its_schema": "The bytes after the id cannot be read by its schema: cut off, or"
        " followed by others, ...",
        "not_utf8": "The bytes are not UTF-8.",
        "not_json": "The bytes are not one whole JSON value: cut off, trailing text, NaN, ...",
        "nested_too_deeply": "Arrays or objects are nested too deeply to be read.",
        "not_an_object": "The JSON value is not an object.",
        "number_too_large": "A number has more digits, or a larger exponent, than can be kept.",
        "missing_field": "A configured field is absent or null.",
        "wrong_type": "A field is of another kind: text where a list should be, for example.",
        "invalid_id": "An id is neither a string nor an integer.",
        "id_too_long": "An id has more than max_id_bytes bytes.",
        "invalid_gain": "A gain is not a number up to 2^1000.",
        "invalid_score": "A score is not a finite number, or there is not one for each item shown.",
        "invalid_positions": "Positions are not whole numbers from 1 on, one for each item shown.",
        "invalid_time": "Event time is not of the configured unit, or not in the years 1 to 9999.",
        "invalid_label": "A label is neither a string nor an integer nor a boolean.",
        "label_too_long": "A label, or the type of an interaction, has more than max_label_bytes"
        " bytes.",
        "too_many_recommendations": "The list shown is longer than max_recommendations.",
        "too_many_interactions": "There are more interactions than max_interactions.",
        "skipped": "An operator skipped it with `streameval skip` after counting it failed.",
    }
)
"""Each reason with its sentence; counters and documentation are made from it."""


class InvalidEvent(msgspec.Struct, frozen=True):
    """An invalid record.

    Attributes:
        engaged: whether the record says that the user did something.
    """

    reason: Reason
    detail: str
    engaged: bool = False


class Refusal(Exception):  # noqa: N818  # not an error of the program; it never leaves the decoder
    """Carries an `InvalidEvent` out of the reading of a record."""

    def __init__(self, reason: Reason, detail: str) -> None:
        self.invalid = InvalidEvent(reason, detail)
        super().__init__(detail)


def excerpt(value: object) -> str:
    """A decoded JSON value, or one of a table, short enough for a message.

    Example:
        >>> excerpt(True), excerpt([1]), excerpt("x" * 100)
        ('true', 'an array', '"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx..."')
        >>> excerpt(1j)
        '"1j"'
    """
    if isinstance(value, list):
        return "an array"
    if isinstance(value, dict):
        return "an object"
    text = json.dumps(value, ensure_ascii=False, default=str)
    closing = '"' if isinstance(value, str) else ""
    return text if len(text) <= 44 else f"{text[:41]}...{closing}"
