"""Avro: a record is decoded with its writer's schema.

UnusableSchemaError is raised for an invalid schema, for a record that contains itself (fastavro
overflows the stack), and for an array of zero-length items, of which a few bytes could declare any
number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from io import BytesIO
from types import MappingProxyType
from typing import Any, Final, get_args
from uuid import UUID

import msgspec
from fastavro import parse_schema, schemaless_reader
from fastavro.read import LOGICAL_READERS

from streameval.decoding.fields import TimeUnit
from streameval.decoding.framing import HEADER, ToText, not_of_its_schema
from streameval.sources.schemas.registry import Definition, UnusableSchemaError

_PER_SECOND: Final[Mapping[str, int]] = MappingProxyType(
    {"millis": 1_000, "micros": 1_000_000, "nanos": 1_000_000_000}
)
_SAME: Final = frozenset({("millis", "ms"), ("micros", "us")})
_KEPT: Final = frozenset({"decimal", "date"})
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PRIMITIVE: Final = frozenset(
    {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}
)

to_json = msgspec.json.Encoder(decimal_format="number").encode


def reader(definition: Definition, unit: TimeUnit) -> ToText:
    """A function that converts records of a schema to JSON text."""
    named: dict[str, Any] = {}
    try:
        for text in definition.references.values():
            parse_schema(_renamed(_decoded(text), unit), named_schemas=named)
        schema = parse_schema(_renamed(_decoded(definition.text), unit), named_schemas=named)
    except Exception as error:  # fastavro raises errors of any type
        problem = f"it is not an Avro schema ({type(error).__name__}: {error})"
        raise UnusableSchemaError(problem) from error
    found = _Facts(named)
    found.add(schema)
    return _to_text(schema, has_floats=found.has_floats)


def _to_text(schema: Any, *, has_floats: bool) -> ToText:
    def to_text(value: bytes) -> bytes:
        stream = BytesIO(value)
        stream.seek(HEADER)
        try:
            found: Any = schemaless_reader(stream, schema, None)
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001  fastavro raises errors of any type
            raise not_of_its_schema(value, f"{type(error).__name__}: {error}") from None
        if stream.tell() != len(value):
            raise not_of_its_schema(value, f"{len(value) - stream.tell()} bytes are left over")
        text = to_json(found)
        # JSON has no NaN; as text it makes the event invalid, as NaN does.
        return to_json(_finite(found)) if has_floats and b"null" in text else text

    return to_text


def _finite(found: Any) -> Any:
    if isinstance(found, dict):
        return {name: _finite(each) for name, each in found.items()}
    if isinstance(found, list):
        return [_finite(each) for each in found]
    return str(found) if isinstance(found, float) and not math.isfinite(found) else found


def _decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text.strip()


def _renamed(schema: Any, unit: TimeUnit) -> Any:
    """The schema with our logical types in place of Avro's."""
    if isinstance(schema, list):
        return [_renamed(each, unit) for each in schema]
    if not isinstance(schema, dict):
        return schema
    changed = {
        name: _renamed(each, unit) if name in {"type", "items", "values", "fields"} else each
        for name, each in schema.items()
    }
    logical = changed.pop("logicalType", None)
    kept = _logical(logical, schema.get("type"), unit)
    return changed if kept is None else {**changed, "logicalType": kept}


def _logical(name: object, of: object, unit: TimeUnit) -> str | None:
    if name == "uuid" and of == "fixed":
        return _UUID
    if not isinstance(name, str) or name in _KEPT or name.startswith("local-timestamp-"):
        return name if isinstance(name, str) else None
    written = name.removeprefix("timestamp-")
    if written == name or written not in _PER_SECOND or (written, unit) in _SAME:
        return None
    return _timestamp(written, unit)


def _timestamp(written: str, unit: str) -> str:
    return f"streameval-{written}-as-{unit}"


def _conversion(written: str, unit: TimeUnit) -> Callable[..., Any]:
    per_second = _PER_SECOND[written]

    def moment(value: int, *_: object) -> datetime:
        return _EPOCH + timedelta(0, 0, value * 1_000_000 // per_second)

    def number(value: int, *_: object) -> int:
        return value * (1_000 if unit == "ms" else 1_000_000) // per_second

    def seconds(value: int, *_: object) -> float:
        return (value * 1_000_000 // per_second) / 1_000_000

    return {"iso8601": moment, "s": seconds}.get(unit, number)


_UUID: Final = "streameval-uuid"


def _extend_fastavro() -> None:
    """Register our logical types under names that no schema uses."""
    LOGICAL_READERS[f"fixed-{_UUID}"] = lambda value, *_: str(UUID(bytes=value))
    for written in _PER_SECOND:
        for unit in get_args(TimeUnit):
            LOGICAL_READERS[f"long-{_timestamp(written, unit)}"] = _conversion(written, unit)


_extend_fastavro()


class _Facts:
    """Safety checks of a schema before untrusted bytes are decoded with it."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._least: dict[str, int] = {}
        self.has_floats = False

    def add(self, schema: Any, within: tuple[str, ...] = ()) -> int:
        """Check a type; returns the minimum size of its values in bytes."""
        kind = schema.get("type") if isinstance(schema, dict) else schema
        if isinstance(schema, list):
            return 1 + min((self.add(each, within) for each in schema), default=0)
        if isinstance(kind, (dict, list)):
            return self.add(kind, within)
        if kind in {"float", "double"}:
            self.has_floats = True
        if kind in {"record", "error"}:
            inner = (*within, schema["name"])
            return sum(self.add(field["type"], inner) for field in schema["fields"])
        if kind == "array" and self.add(schema["items"], within) == 0:
            raise UnusableSchemaError("it has an array whose items have no bytes")
        if kind == "map":
            self.add(schema["values"], within)
        if kind == "fixed":
            return int(schema["size"])
        if kind not in {*_PRIMITIVE, "array", "map", "enum"}:
            return self._reference(str(kind), within)
        return 0 if kind == "null" else 1

    def _reference(self, name: str, within: tuple[str, ...]) -> int:
        if name in within:
            raise UnusableSchemaError(f"its record {name!r} contains itself")
        if name not in self._least:
            self._least[name] = self.add(self._named[name], within)
        return self._least[name]
