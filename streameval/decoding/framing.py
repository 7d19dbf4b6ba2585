"""Records in Confluent's wire format: a zero byte, the id of a schema, and the record's bytes.

Each becomes the JSON text of the same values, and is read as JSON from there on: one meaning of
paths, ids, times and labels of every format.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

import msgspec

from streameval.decoding.fields import Format, TimeUnit
from streameval.decoding.invalid import InvalidEvent, Refusal, excerpt

HEADER: Final = 5
"""Bytes before what the schema describes: a zero, and the id of the schema as a big-endian word."""

ToText: TypeAlias = Callable[[bytes], bytes]
"""A whole record as JSON text; raises `Refusal` where it is none."""


class Encoding(msgspec.Struct, frozen=True):
    """How the records of a stream are written.

    Attributes:
        time_unit: in which the timestamps that a schema declares become JSON.
    """

    format: Format
    time_unit: TimeUnit = "iso8601"

    @property
    def has_schemas(self) -> bool:
        """Whether a record can only be read with its schema."""
        return self.format in {"avro", "protobuf"}


T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class BatchDecoder(Protocol[T_co]):
    """Decodes batches of records."""

    def decode_many(self, values: Sequence[bytes | None]) -> T_co:
        """All records of a batch as columns."""


class FramedDecoder(Generic[T]):
    """Decodes framed records: first to JSON, and then as all JSON is decoded."""

    def __init__(self, decoder: BatchDecoder[T], to_text: ToText) -> None:
        self._decoder = decoder
        self._to_text = to_text

    def decode_many(self, values: Sequence[bytes | None]) -> T:
        """All records of a batch as columns; one that is not of its schema is invalid."""
        refused: dict[int, InvalidEvent] = {}
        texts: list[bytes | None] = []
        for place, value in enumerate(values):
            try:
                texts.append(None if value is None else self._to_text(value))
            except Refusal as refusal:
                refused[place] = refusal.invalid
                texts.append(None)
        found = self._decoder.decode_many(texts)
        if refused:
            found = _without(found, refused)
        return found


def by_schema(readers: Mapping[bytes, ToText]) -> ToText:
    """What reads each record with its own schema.

    `readers`: header of a record -> what reads it; those of further schemas are added.
    """

    def to_text(value: bytes) -> bytes:
        reader = readers.get(value[:HEADER])
        if reader is None:
            check_framed(value)
            raise Refusal("unknown_schema", f"schema {schema_id(value)} has not been fetched")
        return reader(value)

    return to_text


def _without(found: Any, refused: Mapping[int, InvalidEvent]) -> Any:
    """The columns with the refused records among the invalid ones, not the tombstones."""
    return msgspec.structs.replace(
        found,
        invalid=sorted([*found.invalid, *refused.items()], key=lambda each: each[0]),
        tombstones=[place for place in found.tombstones if place not in refused],
    )


def unframed(value: bytes) -> bytes:
    """What stands behind the frame of a record that is JSON."""
    check_framed(value)
    return value[HEADER:]


def check_framed(value: bytes) -> None:
    """Check that the record begins with a zero byte and an id."""
    if value[:1] != b"\0" or len(value) < HEADER:
        began = excerpt(value[:HEADER].hex(" "))
        problem = f"{len(value)} bytes that begin with {began}; a zero byte and an id of four bytes"
        raise Refusal("not_framed", f"{problem} were expected")


def not_of_its_schema(value: bytes, problem: str) -> Refusal:
    """The refusal of a record that its schema does not describe."""
    told = f"{len(value)} bytes are not a record of schema {schema_id(value)} ({problem})"
    return Refusal("not_of_its_schema", told)


def schema_id(header: bytes) -> int:
    """The id in a header, or in the record that begins with it."""
    return int.from_bytes(header[1:HEADER])
