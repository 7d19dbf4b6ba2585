"""Protobuf: a record is a message of a class that protoc generated from the producer's .proto."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message

from streameval.decoding.fields import TimeUnit
from streameval.decoding.framing import HEADER, ToText, check_framed, not_of_its_schema
from streameval.events.times import is_event_time

Read: TypeAlias = Callable[[Any], Any]
"""Converts a value of a message to a JSON value."""

_WELL_KNOWN: Final = "google.protobuf."
_WRAPPERS: Final = frozenset(
    f"{_WELL_KNOWN}{kind}Value"
    for kind in ("Bool", "Bytes", "Double", "Float", "Int32", "Int64", "String", "UInt32", "UInt64")
)
_BY_JSON_FORMAT: Final = frozenset(
    f"{_WELL_KNOWN}{kind}" for kind in ("Duration", "FieldMask", "ListValue", "Struct", "Value")
)
_FLOATS: Final = frozenset({FieldDescriptor.TYPE_DOUBLE, FieldDescriptor.TYPE_FLOAT})

_encode = msgspec.json.Encoder().encode


def reader(message: type[Message], unit: TimeUnit) -> ToText:
    """A function that converts framed records of a generated class to JSON text."""
    descriptor: Any = message.DESCRIPTOR
    path = _path(descriptor)
    prefixes = (b"\0", _zigzag([1, 0])) if path == [0] else (_zigzag([len(path), *path]),)
    read = _Converters(unit).of_message(descriptor)

    def to_text(value: bytes) -> bytes:
        check_framed(value)
        prefix = next((path for path in prefixes if value.startswith(path, HEADER)), None)
        if prefix is None:
            raise not_of_its_schema(value, f"its message is not {descriptor.full_name}")
        try:
            return _encode(read(message.FromString(value[HEADER + len(prefix) :])))
        except DecodeError as error:
            raise not_of_its_schema(value, str(error)) from None

    return to_text


def _path(descriptor: Descriptor) -> list[int]:
    """The index of a message in its file, outermost first, which each record names."""
    outer = descriptor.containing_type
    if outer is None:
        names = list(descriptor.file.message_types_by_name)
        return [names.index(descriptor.name)]
    nested = [inner.name for inner in outer.nested_types]
    return [*_path(outer), nested.index(descriptor.name)]


def _zigzag(numbers: list[int]) -> bytes:
    """Numbers from 0 as zigzag varints."""
    content = bytearray()
    for number in numbers:
        rest = number << 1
        while rest > 0x7F:
            content.append(rest & 0x7F | 0x80)
            rest >>= 7
        content.append(rest)
    return bytes(content)


class _Converters:
    """Converters of messages to JSON values, built once per message type."""

    def __init__(self, unit: TimeUnit) -> None:
        self._unit: TimeUnit = unit
        self._converters: dict[str, Read] = {}

    def of_message(self, descriptor: Descriptor) -> Read:
        """The converter to a JSON object, or to the JSON value of a well-known type."""
        name = descriptor.full_name
        if name == f"{_WELL_KNOWN}Timestamp":
            return partial(_timestamp, unit=self._unit)
        if name in _WRAPPERS:
            of_value = self._of_single(descriptor.fields_by_name["value"]) or _same
            return lambda message: of_value(message.value)
        if name in _BY_JSON_FORMAT:
            return json_format.MessageToDict
        if name not in self._converters:
            # A message may contain its own type, so the converter is registered before its fields.
            fields: list[_Field] = []
            self._converters[name] = partial(_object, fields)
            fields += [
                _Field(field.name, field.has_presence, self._of_field(field))
                for field in descriptor.fields
            ]
        return self._converters[name]

    def _of_field(self, field: FieldDescriptor) -> Read | None:
        if not field.is_repeated:
            return self._of_single(field)
        message_type = field.message_type
        if message_type is not None and message_type.GetOptions().map_entry:
            key, value = message_type.fields_by_name["key"], message_type.fields_by_name["value"]
            read = self._of_single(value) or _same
            if key.type == key.TYPE_BOOL:
                return lambda values: {
                    str(key).lower(): read(entry) for key, entry in values.items()
                }
            return lambda values: {key: read(entry) for key, entry in values.items()}
        if message_type is not None or field.enum_type is not None or field.type in _FLOATS:
            converter = self._of_single(field) or _same
            return lambda values: [converter(entry) for entry in values]
        # A slice of a repeated field is a list, and faster than iteration.
        return itemgetter(slice(None))

    def _of_single(self, field: FieldDescriptor) -> Read | None:
        if field.message_type is not None:
            return self.of_message(field.message_type)
        if field.enum_type is not None:
            names = {
                number: member.name for number, member in field.enum_type.values_by_number.items()
            }
            return lambda number: names.get(number, number)
        return _number if field.type in _FLOATS else None


class _Field(NamedTuple):
    name: str
    optional: bool
    read: Read | None


def _same(value: Any) -> Any:
    return value


def _object(fields: list[_Field], message: Any) -> dict[str, Any]:
    """The fields by their names in the .proto file, without absent optional ones."""
    converted = {}
    for name, optional, read in fields:
        if not optional or message.HasField(name):
            value = getattr(message, name)
            converted[name] = value if read is None else read(value)
    return converted


def _number(value: float) -> float | str:
    # JSON has no NaN; as text it makes the event invalid, as NaN does.
    return value if math.isfinite(value) else str(value)


def _timestamp(message: Any, unit: TimeUnit) -> float | int | str:
    micros: int = message.seconds * 1_000_000 + message.nanos // 1_000
    if unit == "iso8601":
        # Outside the range the decoder refuses the number as a time.
        return str(message.ToJsonString()) if is_event_time(micros) else message.seconds
    if unit == "s":
        return micros / 1_000_000
    return micros // 1_000 if unit == "ms" else micros
