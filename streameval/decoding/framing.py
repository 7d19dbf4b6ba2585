"""Records in Confluent's wire format: a zero byte, a schema id, and the record's bytes.

Each record is converted to JSON text and decoded as JSON, so that paths, ids, times and labels
mean the same in every format.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

import msgspec

from streameval.decoding.fields import Format, TimeUnit
from streameval.decoding.invalid import InvalidEvent, Refusal
from streameval.events.previews import preview

HEADER: Final = 5
"""Bytes of the header: a zero, and the schema id as a big-endian 32-bit integer."""

ToText: TypeAlias = Callable[[bytes], bytes]
"""Converts a framed record to JSON text; raises `Refusal` if it cannot."""


_encode = msgspec.json.Encoder(decimal_format="number").encode


class Encoding(msgspec.Struct, frozen=True):
    """The encoding of a stream's records.

    Attributes:
        time_unit: unit in JSON of the timestamps that a schema declares.
        message: generated class of Protobuf records, "module:Class".
        decoder: function that decodes a record, "module:function"; then `format` is "json".
    """

    format: Format
    time_unit: TimeUnit = "iso8601"
    message: str | None = None
    decoder: str | None = None

    @property
    def has_schemas(self) -> bool:
        """True if a record can only be decoded with its schema."""
        return self.format == "avro"


T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class BatchDecoder(Protocol[T_co]):
    """Decodes batches of records."""

    def decode_many(self, values: Sequence[bytes | None]) -> T_co:
        """Decode a batch of records to columns."""
        ...


class FramedDecoder(Generic[T]):
    """Decodes framed records: converts them to JSON, then decodes the JSON."""

    def __init__(self, decoder: BatchDecoder[T], to_text: ToText) -> None:
        self._decoder = decoder
        self._to_text = to_text

    def decode_many(self, values: Sequence[bytes | None]) -> T:
        """Decode a batch to columns; a record that does not match its schema is invalid."""
        refused: dict[int, InvalidEvent] = {}
        texts: list[bytes | None] = []
        for index, value in enumerate(values):
            try:
                texts.append(None if value is None else self._to_text(value))
            except Refusal as refusal:
                refused[index] = refusal.invalid
                texts.append(None)
        decoded = self._decoder.decode_many(texts)
        if refused:
            decoded = with_invalid(decoded, refused)
        return decoded


def by_function(decode: Callable[[bytes], object], name: str) -> ToText:
    """A converter that decodes each record with a user's function."""

    def to_text(value: bytes) -> bytes:
        try:
            return json_text(decode(value))
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001  a user's function may raise anything
            detail = f"{name} raised {type(error).__name__}: {error}"
            raise Refusal("not_of_its_schema", detail) from None

    return to_text


def json_text(value: object) -> bytes:
    """A decoded value as JSON; NaN and infinities as text, which makes the event invalid."""
    text = _encode(value)
    return _encode(_finite(value)) if b"null" in text else text


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(field) for name, field in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def with_invalid(decoded: Any, refused: Mapping[int, InvalidEvent]) -> Any:
    """The columns with these records as invalid instead of as tombstones.

    `refused`: index in the batch -> why the record is invalid.
    """
    return msgspec.structs.replace(
        decoded,
        invalid=sorted([*decoded.invalid, *refused.items()], key=lambda entry: entry[0]),
        tombstones=[index for index in decoded.tombstones if index not in refused],
    )


def remove_frame(value: bytes) -> bytes:
    """The JSON text of a framed record."""
    check_framed(value)
    return value[HEADER:]


def check_framed(value: bytes) -> None:
    """Check that the record begins with a zero byte and a schema id."""
    if value[:1] != b"\0" or len(value) < HEADER:
        beginning = f"found {len(value)} bytes that begin with {preview(value[:HEADER].hex(' '))}"
        raise Refusal(
            "not_framed", f"expected a zero byte and a schema id of four bytes, {beginning}"
        )


def not_of_its_schema(value: bytes, problem: str) -> Refusal:
    """The refusal of a record that does not match its schema."""
    detail = f"{len(value)} bytes do not match schema {schema_id(value)} ({problem})"
    return Refusal("not_of_its_schema", detail)


def schema_id(header: bytes) -> int:
    """The schema id in a header, or in the record that begins with it."""
    return int.from_bytes(header[1:HEADER])
