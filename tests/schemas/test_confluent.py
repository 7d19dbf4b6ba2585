"""Records of Confluent's own serializers are read with their registry."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from typing import Any, TypeAlias

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from streameval.decoding.fields import Format
from streameval.decoding.framing import Encoding, FramedDecoder, ToText, by_schema, unframed
from streameval.sources.schemas.registry import Registry, RegistryOptions
from streameval.sources.schemas.source import Schemas
from tests.effort import PATIENCE
from tests.schemas.producing import AVRO, ITEM, events, protobuf_payloads, shown_message
from tests.schemas.test_formats import decoder_of_json, json_of, plain

Serialize: TypeAlias = Callable[[SchemaRegistryClient], Callable[[dict[str, Any]], bytes | None]]


def _context(format_: str) -> SerializationContext:
    """Names the subject: a topic has schemas of one format."""
    return SerializationContext(f"shown-{format_}", MessageField.VALUE)


_JSON = {"$schema": "http://json-schema.org/draft-07/schema#", "title": "Shown", "type": "object"}


def _avro(client: SchemaRegistryClient) -> Callable[[dict[str, Any]], bytes | None]:
    # The item inline, for this client registers no references by itself.
    schema = json.dumps(AVRO).replace('"items": "Item"', f'"items": {json.dumps(ITEM)}')
    serializer = AvroSerializer(client, schema)
    return lambda event: serializer(event, _context("avro"))


def _protobuf(client: SchemaRegistryClient) -> Callable[[dict[str, Any]], bytes | None]:
    kind = shown_message()
    serializer = ProtobufSerializer(kind, client, {"use.deprecated.format": False})
    return lambda event: serializer(
        kind.FromString(protobuf_payloads([event])[0][2:]), _context("protobuf")
    )


def _json_schema(client: SchemaRegistryClient) -> Callable[[dict[str, Any]], bytes | None]:
    serializer = JSONSerializer(json.dumps(_JSON), client)
    return lambda event: serializer(event, _context("json"))


@pytest.mark.parametrize(
    ("format_", "serialize"),
    [("avro", _avro), ("protobuf", _protobuf), ("json-schema", _json_schema)],
)
def test_records_of_confluents_serializers_are_read(
    url: str, format_: Format, serialize: Serialize
) -> None:
    found = [
        {name: value for name, value in each.items() if name != "country"} for each in events(20)
    ]
    written = serialize(SchemaRegistryClient({"url": url}))
    values = [written(each) for each in found]
    encoding = Encoding(format_, "ms")
    with closing(Schemas(Registry(RegistryOptions(url=url), {}))) as schemas:
        to_text: ToText = unframed
        if encoding.has_schemas:
            to_text = by_schema(schemas.readers(encoding))
            assert schemas.load(encoding, values, PATIENCE)
        assert plain(FramedDecoder(decoder_of_json(), to_text).decode_many(values)) == json_of(
            found
        )
