"""Avro by Confluent's deserializer: a record is decoded with its writer's schema.

RejectedSchemaError is raised for an invalid schema, for a record that contains itself (fastavro
overflows the stack), and for an array of zero-length items, of which a few bytes could declare any
number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from io import BytesIO
from typing import Any, Final, get_args
from uuid import UUID

import msgspec
from confluent_kafka.schema_registry import RegisteredSchema, Schema, SchemaReference
from confluent_kafka.schema_registry.avro import AvroDeserializer
from fastavro import parse_schema
from fastavro.read import LOGICAL_READERS

from streameval.decoding.fields import TimeUnit
from streameval.decoding.framing import HEADER, ToText, json_text, not_of_its_schema, schema_id
from streameval.events.times import EPOCH, is_event_time
from streameval.sources.schemas.registry import RejectedSchemaError, SchemaDefinition

_PER_SECOND: Final = {"millis": 1_000, "micros": 1_000_000, "nanos": 1_000_000_000}
_UUID: Final = "streameval-uuid"
_NESTED: Final = frozenset({"type", "items", "values", "fields"})


def reader(definition: SchemaDefinition, unit: TimeUnit) -> ToText:
    """A function that converts records of a schema to JSON text."""
    if definition.kind != "AVRO":
        problem = f"it is of type {definition.kind}, and the stream's format is 'avro'"
        raise _unusable(problem)
    named: dict[str, Any] = {}
    try:
        references = {
            name: _rename_types(text, unit) for name, text in definition.references.items()
        }
        for text in references.values():
            parse_schema(msgspec.json.decode(text), named_schemas=named)
        text = _rename_types(definition.text, unit)
        _check(parse_schema(msgspec.json.decode(text), named_schemas=named), named)
    except RejectedSchemaError:
        raise
    except Exception as error:  # fastavro raises errors of any type
        problem = f"it is not an Avro schema ({type(error).__name__}: {error})"
        raise _unusable(problem) from error
    return _Reader(text, references)


def _unusable(problem: str) -> RejectedSchemaError:
    return RejectedSchemaError(problem, reason="unusable_schema")


class _Reader:
    """Answers the deserializer as a registry does, without the network."""

    def __init__(self, text: str, references: Mapping[str, str]) -> None:
        reference_list = [SchemaReference(name, name, 1) for name in references]
        self._schema = Schema(text, "AVRO", reference_list)
        self._references, self._payload = references, BytesIO()
        registry: Any = self
        conf = {"schema.id.deserializer": self._unframed}
        self._deserialize: Any = AvroDeserializer(registry, conf=conf)

    def __call__(self, value: bytes) -> bytes:
        try:
            text = json_text(self._deserialize(value))
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001  fastavro raises errors of any type
            raise not_of_its_schema(value, f"{type(error).__name__}: {error}") from None
        if self._payload.tell() != len(value):
            left = len(value) - self._payload.tell()
            raise not_of_its_schema(value, f"{left} bytes are left over")
        return text

    def config(self) -> dict[str, Any]:
        return {}

    def get_schema(self, *_: object) -> Schema:
        return self._schema

    def get_version(self, subject: str, version: int, *_: object) -> RegisteredSchema:
        return RegisteredSchema(subject, version, None, None, Schema(self._references[subject]))

    def _unframed(self, value: bytes, _context: object, schema: Any) -> BytesIO:
        schema.id = schema_id(value)
        self._payload = BytesIO(value)
        self._payload.seek(HEADER)
        return self._payload


def _rename_types(text: str, unit: TimeUnit) -> str:
    """The schema with our logical types instead of Avro's."""

    def renamed(schema: Any) -> Any:
        if isinstance(schema, list):
            return [renamed(branch) for branch in schema]
        if not isinstance(schema, dict):
            return schema
        logical = _logical(schema.get("logicalType"), schema.get("type"), unit)
        without_logical_type = {
            name: part for name, part in schema.items() if name != "logicalType"
        }
        without_logical_type |= {
            name: renamed(without_logical_type[name])
            for name in _NESTED & without_logical_type.keys()
        }
        return (
            without_logical_type
            if logical is None
            else without_logical_type | {"logicalType": logical}
        )

    try:
        schema = msgspec.json.decode(text)
    except msgspec.DecodeError:
        schema = text.strip()
    return msgspec.json.encode(renamed(schema)).decode()


def _logical(name: object, kind: object, unit: TimeUnit) -> str | None:
    if name == "uuid" and kind == "fixed":
        return _UUID
    prefix, _, of_second = str(name).rpartition("-")
    if prefix == "timestamp" and of_second in _PER_SECOND:
        return f"streameval-{of_second}-as-{unit}"
    return str(name) if name in {"decimal", "date"} or prefix == "local-timestamp" else None


def _conversion(per_second: int, unit: TimeUnit) -> Callable[..., Any]:
    def convert(value: int, *_: object) -> datetime | float:
        micros = value * 1_000_000 // per_second
        if unit == "iso8601":
            # Outside the range the decoder refuses the number as a time.
            return EPOCH + timedelta(microseconds=micros) if is_event_time(micros) else value
        return {"s": micros / 1_000_000, "ms": micros // 1_000, "us": micros}[unit]

    return convert


# Our logical types, under names that no schema uses.
LOGICAL_READERS[f"fixed-{_UUID}"] = lambda value, *_: str(UUID(bytes=value))
LOGICAL_READERS |= {
    f"long-streameval-{name}-as-{unit}": _conversion(per_second, unit)
    for name, per_second in _PER_SECOND.items()
    for unit in get_args(TimeUnit)
}


def _check(schema: Any, named: Mapping[str, Any]) -> None:
    """Check a schema before untrusted bytes are decoded with it."""
    sizes: dict[str, int] = {}

    def least(schema: Any, within: tuple[str, ...]) -> int:
        """The least size of a value in bytes."""
        kind: Any = schema.get("type") if isinstance(schema, dict) else schema
        if isinstance(schema, list):
            return 1 + min((least(branch, within) for branch in schema), default=0)
        if isinstance(kind, (dict, list)):
            return least(kind, within)
        if kind in {"record", "error"}:
            inner = (*within, schema["name"])
            return sum(least(field["type"], inner) for field in schema["fields"])
        if kind in {"array", "map"}:
            if least(schema.get("items", "string"), within) == 0:
                raise _unusable("it has an array whose items have no bytes")
            least(schema.get("values", "string"), within)
            return 1
        if kind in within:
            raise _unusable(f"its record {kind!r} contains itself")
        if kind in named and kind not in sizes:
            sizes[kind] = least(named[kind], within)
        return int(schema["size"]) if kind == "fixed" else sizes.get(kind, int(kind != "null"))

    least(schema, ())
