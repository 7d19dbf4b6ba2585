"""Producers of the same events as JSON, two versions of Avro, Protobuf and JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

import fastavro
from google.protobuf.message import Message

from tests.schemas.messages import ITEM_PROTO, PROTO, Shown
from tests.schemas.registries import Reference, register

EVENT = """
[event]
{format}
event_id = "id"
user = "viewer"
time = "at"
time_unit = "ms"
recommendations = "page.items"
item = "sku"
score = "p"
interactions = "clicked"
interaction_item = "sku"
gain = "eur"
type = "kind"
[event.labels]
variant = "arm.name"
"""
"""The [event] table for all formats."""


def record(name: str, fields: Mapping[str, object], **more: str) -> dict[str, Any]:
    """The Avro schema of a record with these fields."""
    kinds = [{"name": field, "type": kind} for field, kind in fields.items()]
    return {"type": "record", "name": name, **more, "fields": kinds}


def _array(items: object) -> dict[str, object]:
    return {"type": "array", "items": items}


def _stamp(unit: str) -> dict[str, str]:
    return {"type": "long", "logicalType": f"timestamp-{unit}"}


ITEM = record("Item", {"sku": "string", "p": "double"}, namespace="shop")
_KIND = {"type": "enum", "name": "Kind", "symbols": ["click", "buy"]}
_FIELDS = {
    "id": "string",
    "viewer": "long",
    "at": _stamp("millis"),
    "arm": record("Arm", {"name": "string"}),
    "page": record("Page", {"items": _array("Item")}),
    "clicked": _array(record("Click", {"sku": "string", "eur": ["null", "double"], "kind": _KIND})),
}
AVRO = record("Shown", _FIELDS, namespace="shop")
"""The first version; it refers to a separate schema for items."""

_COUNTRY = {"name": "country", "type": ["null", "string"], "default": None}
_EVOLVED = record("Shown", _FIELDS | {"at": _stamp("micros")}, namespace="shop")
EVOLVED = _EVOLVED | {"fields": [_COUNTRY, *_EVOLVED["fields"]]}
"""A version with one more field in front, and times in another unit."""

JSON_SCHEMA = json.dumps(
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "required": ["id", "at"],
    }
)


def events(count: int) -> list[dict[str, Any]]:
    """Events of two arms; every second one has a country, every third a click."""
    return [
        {
            "id": f"e{n}",
            "viewer": n % 17,
            "at": 1_790_000_000_000 + 250 * n,
            "arm": {"name": "ab"[n % 2]},
            "page": {"items": [{"sku": f"i{n + k}", "p": 1 / (k + 2)} for k in range(5)]},
            "clicked": [
                {"sku": f"i{n + n % 7}", "eur": 1.5 * n if n % 2 else None, "kind": "click"},
                {"sku": f"i{n}", "eur": 0.1, "kind": "buy"},
            ][: 2 * (n % 3 == 0)],
            **({"country": "nl"} if n % 2 else {}),
        }
        for n in range(count)
    ]


def framed(number: int, payload: bytes) -> bytes:
    """A record as Confluent's serializers write it."""
    return b"\0" + number.to_bytes(4) + payload


def as_json(records: Sequence[dict[str, Any]]) -> list[bytes]:
    return [json.dumps(event).encode() for event in records]


def as_json_schema(url: str, records: Sequence[dict[str, Any]]) -> list[bytes]:
    number = register(url, "shown-json-value", JSON_SCHEMA, "JSON")
    return [framed(number, event) for event in as_json(records)]


def avro_id(url: str, schema: object = AVRO) -> int:
    """Register a version of the Avro schema with its reference; returns its id."""
    register(url, "shop-item", json.dumps(ITEM))
    item = Reference("shop.Item", "shop-item")
    return register(url, "shown-avro-value", json.dumps(schema), references=[item])


def as_avro(
    url: str, records: Sequence[dict[str, Any]], *, per_second: int = 1_000, schema: object = AVRO
) -> list[bytes]:
    number, factor = avro_id(url, schema), per_second // 1_000
    timed = [event | {"at": event["at"] * factor} for event in records]
    return [framed(number, encoded) for encoded in avro_payloads(timed, schema)]


def avro_payloads(records: Sequence[dict[str, Any]], schema: object = AVRO) -> list[bytes]:
    named = dict[str, Any]()
    fastavro.parse_schema(ITEM, named_schemas=named)
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)), named_schemas=named)
    return [payload(parsed, event) for event in records]


def payload(schema: Any, content: object) -> bytes:
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), content)
    return stream.getvalue()


def as_evolved_avro(url: str, records: Sequence[dict[str, Any]]) -> list[bytes]:
    """The first third in the first version, the rest in the other, and one of the first again."""
    old, new = records[: len(records) // 3], records[len(records) // 3 :]
    lacking = [{k: v for k, v in event.items() if k != "country"} for event in old]
    return [*as_avro(url, lacking), *as_avro(url, new, per_second=1_000_000, schema=EVOLVED)]


def protobuf_id(url: str) -> int:
    """The id of the Protobuf schema."""
    register(url, "shop-item-proto", ITEM_PROTO, "PROTOBUF")
    item = Reference("shop/item.proto", "shop-item-proto")
    return register(url, "shown-proto-value", PROTO, "PROTOBUF", [item])


def as_protobuf(url: str, records: Sequence[dict[str, Any]]) -> list[bytes]:
    number = protobuf_id(url)
    return [framed(number, encoded) for encoded in protobuf_payloads(records)]


def protobuf_payloads(records: Sequence[dict[str, Any]]) -> list[bytes]:
    """A record in Protobuf without a frame, but with the message path."""
    kind = Shown
    # The number of steps, and the step, as zigzag varints.
    return [b"\x02\x02" + _message(kind, event) for event in records]


def _message(kind: type[Message], event: dict[str, Any]) -> bytes:
    message: Any = kind(id=event["id"], viewer=event["viewer"])
    message.at.FromMilliseconds(event["at"])
    message.arm.name = event["arm"]["name"]
    for item in event["page"]["items"]:
        message.page.items.add(**item)
    for click in event["clicked"]:
        added = message.clicked.add(sku=click["sku"], kind=click["kind"])
        if click["eur"] is not None:
            added.eur.value = click["eur"]
    if "country" in event:
        message.country = event["country"]
    content: bytes = message.SerializeToString()
    return content
