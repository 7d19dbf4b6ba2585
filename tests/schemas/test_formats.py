"""A record means the same in every format; one that does not match its schema is invalid."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from decimal import Decimal
from functools import cache
from io import BytesIO
from typing import Any, TypeAlias, cast
from uuid import UUID

import fastavro
import msgspec
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from streameval.decoding.columns import Decoded
from streameval.decoding.decode import Decoder
from streameval.decoding.fields import EventFields, Format, TimeUnit
from streameval.decoding.framing import (
    Encoding,
    FramedDecoder,
    ToText,
    by_function,
    remove_frame,
)
from streameval.decoding.invalid import Refusal
from streameval.join.attribution import InteractionOptions
from streameval.join.interactions import InteractionDecoder
from streameval.sources import protobuf
from streameval.sources.schemas import avro
from streameval.sources.schemas.records import Schemas
from streameval.sources.schemas.registry import (
    Registry,
    RegistryOptions,
    RejectedSchemaError,
    SchemaDefinition,
)
from tests.schemas.messages import Shown, message_class
from tests.schemas.producing import (
    AVRO,
    EVOLVED,
    ITEM,
    as_avro,
    as_evolved_avro,
    as_json,
    as_json_schema,
    as_protobuf,
    events,
    framed,
    protobuf_payloads,
    record,
)
from tests.schemas.registries import SmallRegistry, register

FIELDS = EventFields(
    event_id="id",
    user="viewer",
    time="at",
    time_unit="ms",
    recommendations="page.items",
    item="sku",
    score="p",
    interactions="clicked",
    interaction_item="sku",
    gain="eur",
    type="kind",
    labels={"variant": "arm.name"},
)
DIMENSIONS = ["variant", "country"]


@pytest.fixture
def schemas(registry: SmallRegistry) -> Iterator[Schemas]:
    with closing(Schemas(Registry(RegistryOptions(url=registry.url), {}), {})) as opened:
        yield opened


def decoded(schemas: Schemas, encoding: Encoding, values: Sequence[bytes | None]) -> Decoded:
    return FramedDecoder(decoder_of_json(), to_text(schemas, encoding)).decode_many(values)


def to_text(schemas: Schemas, encoding: Encoding) -> ToText:
    """The converter of records, whose schemas are fetched if they need any."""
    if encoding.format == "protobuf":
        return protobuf.reader(Shown, encoding.time_unit)
    if not encoding.has_schemas:
        return remove_frame
    return schemas.to_text(encoding)


def decoder_of_json() -> Decoder:
    return Decoder(FIELDS, DIMENSIONS)


def plain(decoded_values: Decoded) -> Any:
    times = None if decoded_values.times is None else decoded_values.times.tolist()
    batch = msgspec.structs.replace(decoded_values.batch, times=cast("Any", times))
    return msgspec.to_builtins(msgspec.structs.replace(decoded_values, batch=batch))


def json_of(records: list[dict[str, Any]]) -> Any:
    return plain(decoder_of_json().decode_many(as_json(records)))


Serializer: TypeAlias = Callable[[dict[str, Any]], bytes | None]


def _context(format_: Format) -> SerializationContext:
    """Names the subject: a topic has schemas of one format."""
    return SerializationContext(f"shown-{format_}", MessageField.VALUE)


def _avro(client: SchemaRegistryClient) -> Serializer:
    # The item inline, for this client registers no references by itself.
    fields = [*AVRO["fields"], *(at for at in EVOLVED["fields"] if at["name"] == "country")]
    schema = json.dumps(AVRO | {"fields": fields})
    serializer = AvroSerializer(client, schema.replace('"Item"}', f"{json.dumps(ITEM)}}}"))
    return lambda event: serializer(event, _context("avro"))


def _protobuf(client: SchemaRegistryClient) -> Serializer:
    serializer = ProtobufSerializer(Shown, client, {"use.deprecated.format": False})
    return lambda event: serializer(
        Shown.FromString(protobuf_payloads([event])[0][2:]), _context("protobuf")
    )


def _json_schema(client: SchemaRegistryClient) -> Serializer:
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "title": "Shown"}
    serializer = JSONSerializer(json.dumps(schema | {"type": "object"}), client)
    return lambda event: serializer(event, _context("json-schema"))


_CONFLUENT: dict[Format, Callable[[SchemaRegistryClient], Serializer]] = {
    "avro": _avro,
    "protobuf": _protobuf,
    "json-schema": _json_schema,
}


def _reader_and_values(
    schemas: Schemas, format_: str, url: str, records: list[dict[str, Any]]
) -> tuple[ToText, Sequence[bytes | None]]:
    """The converter of a format, and the records as its producers write them."""
    if format_ == "function":
        backwards = by_function(lambda value: json.loads(value[::-1]), "shop:decode")
        return backwards, [value[::-1] for value in as_json(records)]
    if format_ == "two versions of avro":
        return to_text(schemas, Encoding("avro", "ms")), as_evolved_avro(url, records)
    name = cast("Format", format_)
    serialize = _CONFLUENT[name](SchemaRegistryClient({"url": url}))
    return to_text(schemas, Encoding(name, "ms")), [serialize(record) for record in records]


@pytest.mark.parametrize("format_", [*_CONFLUENT, "two versions of avro", "function"])
def test_events_equal_those_of_json(url: str, format_: str) -> None:
    records = events(60)
    if format_ == "two versions of avro":
        # The old version has no field for it.
        for event in records[:20]:
            event.pop("country", None)
    with closing(Schemas(Registry(RegistryOptions(url=url), {}), {})) as schemas:
        converter, values = _reader_and_values(schemas, format_, url, records)
        decoder = FramedDecoder(decoder_of_json(), converter)
        assert plain(decoder.decode_many(values)) == json_of(records)


def test_interactions_equal_those_of_json(registry: SmallRegistry, schemas: Schemas) -> None:
    options = InteractionOptions(source="clicks", request_id="id", item="arm.name")
    event = EventFields(time="at", time_unit="us")
    of_json, encoding = InteractionDecoder(options, event, "request_id"), Encoding("avro", "us")
    values: list[bytes | None] = [*as_evolved_avro(registry.url, events(30)), None, b"{}"]
    framed_ones = FramedDecoder(of_json, schemas.to_text(encoding))
    decoded_here = framed_ones.decode_many(values)
    in_us = [record | {"at": 1_000 * record["at"]} for record in events(30)]
    expected = of_json.decode_many([*as_json(in_us), None, b"{}"])
    assert (decoded_here.keys, decoded_here.items) == (expected.keys, expected.items)
    assert decoded_here.times.tolist() == expected.times.tolist()
    assert (decoded_here.indices.tolist(), decoded_here.tombstones) == (
        expected.indices.tolist(),
        [30],
    )
    assert [(index, invalid.reason) for index, invalid in decoded_here.invalid] == [
        (31, "not_framed")
    ]


@pytest.mark.parametrize(
    ("format_", "produce", "reasons"),
    [
        ("avro", as_avro, ["unknown_schema", "unusable_schema", "not_of_its_schema"]),
        # The class says what a record is, whatever its schema id; of JSON, nothing needs a schema.
        ("protobuf", as_protobuf, ["not_of_its_schema"]),
        ("json-schema", as_json_schema, []),
    ],
)
def test_a_record_that_does_not_match_its_schema_is_invalid(
    registry: SmallRegistry,
    schemas: Schemas,
    format_: Format,
    produce: Callable[[str, list[dict[str, Any]]], list[bytes]],
    reasons: list[str],
) -> None:
    (good,) = produce(registry.url, events(1))
    other = register(registry.url, "other", "{}", "JSON")
    bad = {
        "not_framed": [b"", b"\0\0\0", b"\1" + good[1:], b'{"user": 1}'],
        "unknown_schema": [framed(999_999, good[5:])],
        "unusable_schema": [framed(other, good[5:])],
        "not_of_its_schema": [
            *(good[:5], good[:6], good[:-1], good[:5] + b"\xff" * 40, good + b"\0"),
        ],
    }
    bad = {reason: bad[reason] for reason in ("not_framed", *reasons)}
    values = [value for records in bad.values() for value in (*records, good, None)]
    outcome = decoded(schemas, Encoding(format_, "ms"), values)
    expected = [reason for reason, records_ in bad.items() for _ in records_]
    assert [invalid.reason for _, invalid in outcome.invalid] == expected
    assert len(outcome.indices) == len(outcome.tombstones) == len(bad)
    assert sorted(
        [*outcome.indices, *outcome.tombstones, *(p for p, _ in outcome.invalid)]
    ) == list(range(len(values)))


def test_the_limits_of_json_are_those_of_all_formats(
    registry: SmallRegistry, schemas: Schemas
) -> None:
    (event,) = events(1)
    event["page"]["items"][0]["p"] = float("nan")
    event["clicked"][0]["eur"] = float("inf")
    for encoding, produce in (
        (Encoding("avro", "ms"), as_avro),
        (Encoding("protobuf", "ms"), as_protobuf),
    ):
        outcome = decoded(schemas, encoding, produce(registry.url, [event]))
        ((_, invalid),) = outcome.invalid
        assert (invalid.reason, invalid.engaged) == ("invalid_score", True)


def read_avro(kind: object, value: object) -> Any:
    """A value of a type, as JSON."""
    schema = record("R", {"x": kind})
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), {"x": value})
    to_text = avro.reader(SchemaDefinition("AVRO", json.dumps(schema)), "ms")
    return json.loads(to_text(framed(1, stream.getvalue())))["x"]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("long", 2**62 + 1, 2**62 + 1),
        (["null", "string"], None, None),
        (["null", "string", "long"], 7, 7),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "B"),
        ({"type": "map", "values": "double"}, {"a": 0.5}, {"a": 0.5}),
        ({"type": "fixed", "name": "F", "size": 3}, b"abc", "YWJj"),
        ("bytes", b"abc", "YWJj"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            Decimal("12.50"),
            12.5,
        ),
        ({"type": "string", "logicalType": "uuid"}, UUID(int=5), str(UUID(int=5))),
        ({"type": "int", "logicalType": "date"}, 20_454, "2026-01-01"),
        # Without a time zone it is a text in every unit.
        (
            {"type": "long", "logicalType": "local-timestamp-millis"},
            1_790_000_000_000,
            "2026-09-21T14:13:20",
        ),
        ("float", 0.1, 0.10000000149011612),
        ("double", float("nan"), "nan"),
        (["null", "double"], float("-inf"), "-inf"),
    ],
)
def test_a_type_of_avro_becomes_json(kind: object, value: object, expected: object) -> None:
    assert read_avro(kind, value) == expected


def test_a_uuid_of_sixteen_bytes_becomes_its_text() -> None:
    fixed = {"type": "fixed", "name": "U", "size": 16}
    number = UUID(int=5)
    schema = record("R", {"x": fixed})
    declared = json.dumps(schema).replace('"size"', '"logicalType": "uuid", "size"')
    to_text = avro.reader(SchemaDefinition("AVRO", declared), "ms")
    assert json.loads(to_text(framed(1, number.bytes))) == {"x": str(number)}


@given(st.integers(-62_104_060_800_000, 253_370_764_799_999), st.sampled_from(["millis", "micros"]))
def test_a_timestamp_is_converted_to_the_unit_of_the_stream(millis: int, written: str) -> None:
    value = millis * (1_000 if written == "micros" else 1)
    kind = {"type": "long", "logicalType": f"timestamp-{written}"}
    schema = record("R", {"x": kind})
    plainly = record("R", {"x": "long"})
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(plainly), {"x": value})
    value_framed = framed(1, stream.getvalue())
    units: tuple[TimeUnit, ...] = ("ms", "us", "s", "iso8601")
    for unit in units:
        text = avro.reader(SchemaDefinition("AVRO", json.dumps(schema)), unit)(value_framed)
        fields = EventFields(recommendations="r", interactions="i", time="x", time_unit=unit)
        total = json.loads(text) | {"r": [], "i": []}
        (time,) = Decoder(fields, []).decode_many([json.dumps(total).encode()]).times.tolist()  # type: ignore[union-attr]  # it has times
        assert time == millis * 1_000


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("nonsense", "not an Avro schema"),
        ('{"type": "record"}', "not an Avro schema"),
        ("[1, 2]", "not an Avro schema"),
        (
            '{"type":"record","name":"L","fields":[{"name":"next","type":["null","L"]}]}',
            "'L' contains itself",
        ),
        ('{"type":"array","items":"null"}', "items have no bytes"),
        (
            '{"type":"array","items":{"type":"record","name":"R","fields":[]}}',
            "items have no bytes",
        ),
    ],
)
def test_an_unusable_avro_schema_has_a_reason(text: str, problem: str) -> None:
    with pytest.raises(RejectedSchemaError, match=problem):
        avro.reader(SchemaDefinition("AVRO", text), "ms")


PROTO = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/duration.proto";
enum Kind { NONE = 0; CLICK = 1; }
message Item { string id = 1; Item of = 2; message Inner { bool yes = 1; } }
message R {
  string text = 1; optional string maybe = 2; int64 whole = 3; uint64 large = 4; double real = 5;
  bytes raw = 6; Kind kind = 7; repeated Kind kinds = 8; repeated float reals = 9;
  Item item = 10; repeated Item items = 11; map<string, Item> named = 12;
  map<bool, int32> bools = 13;
  map<int64, string> numbers = 14; google.protobuf.StringValue wrapped = 15;
  google.protobuf.Timestamp at = 16; google.protobuf.Struct free = 17;
  oneof one { string a = 18; int64 b = 19; } google.protobuf.Duration took = 20;
}
"""
UNSET = {
    "text": "",
    "whole": 0,
    "large": 0,
    "real": 0.0,
    "raw": "",
    "kind": "NONE",
    "kinds": [],
    "reals": [],
    "items": [],
    "named": {},
    "bools": {},
    "numbers": {},
}


@cache
def message(name: str = "R") -> type[Message]:
    return message_class({"r.proto": PROTO}, name)


def read_protobuf(given: Mapping[str, Any], unit: TimeUnit = "iso8601") -> Any:
    """A message with these fields, as JSON."""
    record = framed(1, b"\x02\x02" + message()(**given).SerializeToString())
    return json.loads(protobuf.reader(message(), unit)(record))


def test_an_unset_scalar_is_its_default_and_an_unset_optional_is_absent() -> None:
    assert read_protobuf({}) == UNSET


def test_a_type_of_protobuf_becomes_json() -> None:
    given = {
        "text": "t",
        "maybe": "",
        "whole": -(2**63),
        "large": 2**64 - 1,
        "real": float("nan"),
        "raw": b"abc",
        "kind": 1,
        "kinds": [1, 0, 5],
        "reals": [0.5, float("inf")],
        "item": {"id": "x", "of": {"id": "y"}},
        "items": [{"id": "z"}],
        "named": {},
        "bools": {True: 1},
        "numbers": {-1: "m"},
        "wrapped": {"value": ""},
        "at": {"seconds": 1_790_000_000, "nanos": 250_000_000},
        "free": {"k": True},
        "b": 0,
        "took": {"seconds": 3},
    }
    assert read_protobuf(given) == UNSET | given | {
        "real": "nan",
        "raw": "YWJj",
        "kind": "CLICK",
        "kinds": ["CLICK", "NONE", 5],
        "reals": [0.5, "inf"],
        "bools": {"true": 1},
        "numbers": {"-1": "m"},
        "wrapped": "",
        "at": "2026-09-21T14:13:20.250Z",
        "free": {"k": True},
        "took": "3s",
    }
    for unit, instant in (("ms", 1_790_000_000_250), ("us", 1_790_000_000_250_000)):
        assert read_protobuf(given, cast("TimeUnit", unit))["at"] == instant
    assert read_protobuf(given, "s")["at"] == 1_790_000_000.25


@cache
def far_message() -> type[Message]:
    """A message so far down in its file that its number has two bytes."""
    many = "".join(f"message M{number} {{ string id = 1; }}\n" for number in range(131))
    return message_class({"many.proto": f'syntax = "proto3";\n{many}'}, "M130")


def inner_message() -> type[Message]:
    item: Any = message("Item")
    inner: type[Message] = item.Inner
    return inner


@pytest.mark.parametrize(
    ("kind", "path", "content"),
    [
        (lambda: message("Item"), b"\x00", {"id": "x"}),
        (lambda: message("Item"), b"\x02\x00", {"id": "x"}),
        (far_message, b"\x02\x84\x02", {"id": "x"}),
        (inner_message, b"\x04\x00\x00", {"yes": False}),
        *(
            (message, path, None)
            for path in (b"", b"\x00", b"\x02", b"\x02\x04", b"\x01", b"\xff" * 6, b"\x04\x00\x02")
        ),
    ],
)
def test_a_path_names_the_message_in_its_file_and_a_record_of_another_one_is_rejected(
    kind: Callable[[], type[Message]], path: bytes, content: dict[str, Any] | None
) -> None:
    to_text = protobuf.reader(kind(), "ms")
    if content is None:
        with pytest.raises(Refusal, match="its message is not R") as refusal:
            to_text(framed(1, path))
        assert refusal.value.invalid.reason == "not_of_its_schema"
    else:
        field = b"" if "yes" in content else b"\x0a\x01x"
        assert json.loads(to_text(framed(1, path + field))) == content


@pytest.mark.parametrize(
    ("decode", "reason", "detail"),
    [
        (json.loads, "not_of_its_schema", "shop:decode raised JSONDecodeError: Expecting value"),
        (lambda _: object(), "not_of_its_schema", "shop:decode raised TypeError"),
        (lambda _: [1], "not_an_object", "Expected object, got array"),
        (
            lambda _: events(1)[0] | {"at": float("nan")},
            "invalid_time",
            "nan",
        ),
    ],
)
def test_what_a_function_cannot_decode_is_invalid(
    decode: Callable[[bytes], object], reason: str, detail: str
) -> None:
    decoder = FramedDecoder(decoder_of_json(), by_function(decode, "shop:decode"))
    ((index, invalid),) = decoder.decode_many([None, b"nonsense"]).invalid
    assert (index, invalid.reason) == (1, reason)
    assert detail in invalid.detail
