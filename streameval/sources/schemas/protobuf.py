"""Protobuf: a record is a message of its writer's .proto file.

UnusableSchemaError is raised for files that cannot be compiled.
"""

from __future__ import annotations

import base64
import binascii
import math
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from operator import itemgetter
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from streameval.decoding.fields import TimeUnit
from streameval.decoding.framing import HEADER, ToText, not_of_its_schema
from streameval.sources.schemas.registry import Definition, UnusableSchemaError

Read: TypeAlias = Callable[[Any], Any]
"""Converts a value of a message to a JSON value."""

_MAIN: Final = "streameval/record.proto"
"""File name for the schema itself, which has none in a registry."""

_SECONDS: Final = 60.0
_LONGEST_INDEX: Final = 100
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


def reader(definition: Definition, unit: TimeUnit) -> ToText:
    """A function that converts records of a schema to JSON text."""
    file = compile_files({**definition.references, _MAIN: definition.text})
    known: dict[tuple[int, ...], tuple[type[Message], Read]] = {}
    converters = _Converters(unit)

    def to_text(value: bytes) -> bytes:
        path, start = _message_path(value)
        if path not in known:
            descriptor = _message(file, path, value)
            known[path] = GetMessageClass(descriptor), converters.of_message(descriptor)
        kind, read = known[path]
        try:
            message = kind.FromString(value[start:])
        except DecodeError as error:
            raise not_of_its_schema(value, str(error)) from None
        return _encode(read(message))

    return to_text


def _message_path(value: bytes) -> tuple[tuple[int, ...], int]:
    """The path of the message type in the file, outermost first, and the start of its bytes."""
    count, place = _varint(value, HEADER)
    if count == 0:
        return (0,), place
    if not 0 < count <= _LONGEST_INDEX:
        raise not_of_its_schema(value, f"{count} steps to its message")
    path = []
    for _ in range(count):
        step, place = _varint(value, place)
        path.append(step)
    return tuple(path), place


def _varint(value: bytes, place: int) -> tuple[int, int]:
    """A zigzag varint at a position, and the position after it."""
    found = 0
    for shift in range(0, 35, 7):
        if place >= len(value):
            raise not_of_its_schema(value, "it ends in the path of its message")
        byte, place = value[place], place + 1
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (found >> 1) ^ -(found & 1), place
    raise not_of_its_schema(value, "the path of its message is not a varint")


def _message(file: FileDescriptor, path: tuple[int, ...], value: bytes) -> Descriptor:
    # Descriptors list messages in the order of the file, to which the path refers.
    messages: Sequence[Descriptor] = list(file.message_types_by_name.values())
    for step in path[:-1]:
        messages = messages[step].nested_types if 0 <= step < len(messages) else ()
    if not 0 <= path[-1] < len(messages):
        raise not_of_its_schema(value, f"the schema has no message {'/'.join(map(str, path))}")
    return messages[path[-1]]


def compile_files(files: Mapping[str, str]) -> FileDescriptor:
    """The compiled last file.

    `files`: name -> .proto text or FileDescriptorProto in base64; dependencies first.
    """
    found: dict[str, FileDescriptorProto] = {}
    texts: dict[str, str] = {}
    for name, content in files.items():
        descriptor = _descriptor(content)
        if descriptor is None:
            texts[name] = content
        else:
            descriptor.name = name
            found[name] = descriptor
    try:
        if texts:
            found |= _parsed(texts, found)
        pool, added, last = DescriptorPool(), set[str](), ""
        for last in files:
            _add(pool, last, found, added)
        return pool.FindFileByName(last)
    except (TypeError, KeyError) as error:
        raise UnusableSchemaError(f"its Protobuf schema is not consistent ({error})") from error


def _descriptor(content: str) -> FileDescriptorProto | None:
    try:
        found = base64.b64decode(content, validate=True)
        return FileDescriptorProto.FromString(found) if found else None
    except (binascii.Error, ValueError, DecodeError):
        return None


def _add(
    pool: DescriptorPool, name: str, found: Mapping[str, FileDescriptorProto], added: set[str]
) -> None:
    if name in added:
        return
    added.add(name)
    file = found.get(name) or _well_known(name)
    for each in file.dependency:
        _add(pool, each, found, added)
    pool.Add(file)


def _well_known(name: str) -> FileDescriptorProto:
    path = PurePosixPath(name)
    if path.parent != PurePosixPath("google/protobuf") or not path.stem.isidentifier():
        raise UnusableSchemaError(f"it imports {name!r}, which is not among its references")
    copy = FileDescriptorProto()
    import_module(f"google.protobuf.{path.stem}_pb2").DESCRIPTOR.CopyToProto(copy)
    return copy


def _parsed(
    texts: Mapping[str, str], known: Mapping[str, FileDescriptorProto]
) -> dict[str, FileDescriptorProto]:
    """Compile .proto texts with protoc, in a separate process because the texts are untrusted."""
    with TemporaryDirectory(prefix="streameval-protoc-") as name:
        folder = Path(name)
        for file, text in texts.items():
            _write(folder / "files", file, text)
        (folder / "known").write_bytes(FileDescriptorSet(file=known.values()).SerializeToString())
        command = [sys.executable, "-I", "-m", "grpc_tools.protoc", f"-I{folder / 'files'}"]
        command += [f"--descriptor_set_out={folder / 'all'}", "--include_imports"]
        command += [f"--descriptor_set_in={folder / 'known'}"] if known else []
        _run([*command, *texts])
        found = FileDescriptorSet.FromString((folder / "all").read_bytes())
    return {file.name: file for file in found.file if file.name not in known}


def _write(folder: Path, name: str, text: str) -> None:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or name.startswith("-"):
        raise UnusableSchemaError(f"it refers to {name!r}, which is not a file name")
    there = folder / path
    there.parent.mkdir(parents=True, exist_ok=True)
    there.write_text(text, encoding="utf-8")


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(  # noqa: S603  our own command, no shell
            command, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise UnusableSchemaError(f"protoc has not read it within {_SECONDS:g} s") from error
    if done.returncode:
        # protoc also logs other lines, which name no file.
        lines = [line.partition("/files/")[2] or line for line in done.stderr.splitlines()]
        problem = "; ".join(line for line in lines if ".proto:" in line)
        raise UnusableSchemaError(f"protoc rejects it ({problem[:500]})")


class _Converters:
    """Converters of messages to JSON values, built once per message type."""

    def __init__(self, unit: TimeUnit) -> None:
        self._unit = unit
        self._known: dict[str, Read] = {}

    def of_message(self, descriptor: Descriptor) -> Read:
        """The converter to a JSON object, or to the JSON value of a well-known type."""
        name = descriptor.full_name
        if name == f"{_WELL_KNOWN}Timestamp":
            return partial(_timestamp, unit=self._unit)
        if name in _WRAPPERS:
            of_value = self._of_one(descriptor.fields_by_name["value"]) or _same
            return lambda message: of_value(message.value)
        if name in _BY_JSON_FORMAT:
            return json_format.MessageToDict
        if name not in self._known:
            # A message may contain its own type, so the converter is registered before its fields.
            fields: list[_Field] = []
            self._known[name] = partial(_object, fields)
            fields += [
                _Field(each.name, each.has_presence, self._of_field(each))
                for each in descriptor.fields
            ]
        return self._known[name]

    def _of_field(self, field: FieldDescriptor) -> Read | None:
        if not field.is_repeated:
            return self._of_one(field)
        held = field.message_type
        if held is not None and held.GetOptions().map_entry:
            key, value = held.fields_by_name["key"], held.fields_by_name["value"]
            read = self._of_one(value) or _same
            if key.type == key.TYPE_BOOL:
                return lambda values: {str(key).lower(): read(each) for key, each in values.items()}
            return lambda values: {key: read(each) for key, each in values.items()}
        if held is not None or field.enum_type is not None or field.type in _FLOATS:
            one = self._of_one(field) or _same
            return lambda values: [one(each) for each in values]
        # A slice of a repeated field is a list, and faster than iteration.
        return itemgetter(slice(None))

    def _of_one(self, field: FieldDescriptor) -> Read | None:
        if field.message_type is not None:
            return self.of_message(field.message_type)
        if field.enum_type is not None:
            names = {number: each.name for number, each in field.enum_type.values_by_number.items()}
            return lambda number: names.get(number, number)
        return _number if field.type in _FLOATS else None


class _Field(NamedTuple):
    """A field of a message."""

    name: str
    optional: bool
    read: Read | None


def _same(value: Any) -> Any:
    return value


def _object(fields: list[_Field], message: Any) -> dict[str, Any]:
    """The fields by their names in the .proto file, without absent optional ones."""
    found = {}
    for name, optional, read in fields:
        if not optional or message.HasField(name):
            value = getattr(message, name)
            found[name] = value if read is None else read(value)
    return found


def _number(value: float) -> float | str:
    # JSON has no NaN; as text it makes the event invalid, as NaN does.
    return value if math.isfinite(value) else str(value)


def _timestamp(message: Any, unit: TimeUnit) -> float | int | str:
    if unit == "iso8601":
        text: str = message.ToJsonString()
        return text
    micros: int = message.seconds * 1_000_000 + message.nanos // 1_000
    if unit == "s":
        return micros / 1_000_000
    return micros // 1_000 if unit == "ms" else micros
