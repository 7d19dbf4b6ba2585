"""Invalid records and their reasons."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import msgspec

from streameval.events.errors import InvalidEventError
from streameval.events.previews import redact_detail
from streameval.events.times import YEARS

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
"""Reasons why the bytes of a record cannot be decoded."""

Reason: TypeAlias = Literal[
    Unreadable,
    "missing_field",
    "wrong_type",
    "invalid_id",
    "id_too_long",
    "invalid_gain",
    "invalid_score",
    "invalid_positions",
    "invalid_per_item",
    "invalid_time",
    "invalid_label",
    "label_too_long",
    "too_many_recommendations",
    "too_many_interactions",
    "history_too_long",
    "uncountable",
]
"""Reasons why a record is invalid; `REASONS` explains each."""

REASONS: MappingProxyType[Reason, str] = MappingProxyType(
    {
        "not_framed": "The bytes do not begin with a zero byte and a four-byte schema id.",
        "unknown_schema": "The schema registry has no schema with the record's id.",
        "unusable_schema": "The schema does not have the configured format, or is unusable.",
        "not_of_its_schema": "The bytes after the id do not match the schema: truncated, trailing"
        " bytes, ...",
        "not_utf8": "The bytes are not UTF-8.",
        "not_json": "The bytes are not one complete JSON value: truncated, trailing text, NaN, ...",
        "nested_too_deeply": "Arrays or objects are nested too deeply.",
        "not_an_object": "The JSON value is not an object.",
        "number_too_large": "A number has too many digits or too large an exponent.",
        "missing_field": "A configured field is absent or null, or the id of an event is empty.",
        "wrong_type": "A field has the wrong type, for example text instead of a list, or a list"
        " of 0 and 1 instead of ids.",
        "invalid_id": "An id is neither a string nor an integer, or is -1 or empty text that is"
        " not padding at the end of a list.",
        "id_too_long": "An id has more than 1,024 bytes.",
        "invalid_gain": "A gain is not a number up to 2^1000, or there is not one for each id.",
        "invalid_score": "A score is not a finite number, or there is not one for each item.",
        "invalid_positions": "Positions are not integers from 1, one for each item.",
        "invalid_per_item": "A value of per_item is neither a finite number nor a word, is a word"
        " where a metric needs a number, or there is not one for each item.",
        "invalid_time": f"Event time does not have the configured unit, or is outside {YEARS},"
        " such as the zero time of Go and .NET.",
        "invalid_label": "A label is neither a string nor an integer nor a boolean.",
        "label_too_long": "A label, an interaction type or a word of per_item has more than"
        " 256 bytes.",
        "too_many_recommendations": "The list shown is longer than max_recommendations.",
        "too_many_interactions": "There are more interactions than max_interactions.",
        "history_too_long": "The history has more than 10,000 items.",
        "uncountable": "Counting it fails in your own metric or statistic, or by a bug.",
    }
)
"""Each reason with its explanation; counters and documentation are generated from it."""


class InvalidEvent(msgspec.Struct, frozen=True):
    """An invalid record.

    Attributes:
        engaged: whether the record has interactions.
    """

    reason: Reason
    detail: str
    engaged: bool = False


def redact_invalid(event: InvalidEvent) -> str:
    """The detail of an invalid record, as it may leave the process; see `previews`."""
    if event.reason == "uncountable":
        # `describe_error` has hidden the message already.
        return event.detail
    return redact_detail(event.detail, REASONS[event.reason])


def invalid_of(error: InvalidEventError) -> InvalidEvent:
    """The invalid record for an error of `events.rules`, whose reasons are those of a record."""
    reason: Any = error.reason
    return InvalidEvent(reason, error.detail)


class Refusal(Exception):  # noqa: N818  # not an error of the program; it never leaves the decoder
    """Raised while a record is decoded; carries an `InvalidEvent`."""

    def __init__(self, reason: Reason, detail: str) -> None:
        self.invalid = InvalidEvent(reason, detail)
        super().__init__(detail)
