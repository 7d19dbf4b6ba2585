"""A dead letter as a line of JSON, for people and `jq`."""

from __future__ import annotations

import base64
from typing import Any, TypeAlias

import msgspec

from streameval.pipeline.letters import DeadLetter, Stage
from streameval.records import Partition


class Base64(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bytes that are no UTF-8 text.

    Attributes:
        base64: the bytes so written.
    """

    base64: str


Content: TypeAlias = str | Base64
"""Bytes: as their text where they are UTF-8."""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """What a line says; the fields of `DeadLetter`."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    stage: Stage
    reason: str
    message: str
    key: Content | None
    headers: tuple[tuple[str, Content], ...]
    value: Content


def line_of(letter: DeadLetter) -> bytes:
    r"""The letter as one line, with its end.

    >>> letter = DeadLetter(partition=Partition("events", 3), offset=14, timestamp_ms=None,
    ...     key=b"\xff", headers=(), value=b"{", stage="decode", reason="not_json",
    ...     message="cut off")
    >>> print(line_of(letter).decode().replace(',"', ', "'), end="")
    {"topic":"events", "partition":3, "offset":14, "timestamp":null, "stage":"decode",
     "reason":"not_json", "message":"cut off", "key":{"base64":"/w=="}, "headers":[], "value":"{"}
    """
    line = Line(
        topic=letter.partition.topic,
        partition=letter.partition.number,
        offset=letter.offset,
        timestamp=letter.timestamp_ms,
        stage=letter.stage,
        reason=letter.reason,
        message=letter.message,
        key=None if letter.key is None else _content(letter.key),
        headers=tuple((name, _content(value)) for name, value in letter.headers),
        value=_content(letter.value),
    )
    return msgspec.json.encode(line) + b"\n"


def letter_in(line: bytes) -> DeadLetter:
    """The letter that a line holds.

    Raises:
        ValueError: the line holds none.
    """
    try:
        found = msgspec.json.decode(line, type=Line)
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from error
    return DeadLetter(
        partition=Partition(found.topic, found.partition),
        offset=found.offset,
        timestamp_ms=found.timestamp,
        key=None if found.key is None else _bytes(found.key),
        headers=tuple((name, _bytes(value)) for name, value in found.headers),
        value=_bytes(found.value),
        stage=found.stage,
        reason=found.reason,
        message=found.message,
    )


def _content(value: bytes) -> Any:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return Base64(base64.b64encode(value).decode())


def _bytes(content: Content) -> bytes:
    if isinstance(content, Base64):
        return base64.b64decode(content.base64, validate=True)
    return content.encode()
