"""Cost of decoding to columns and counting, relative to msgspec decoding alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import fastavro
import msgspec

from streameval.accumulator import Accumulator
from streameval.decoding.columns import Decoded
from streameval.decoding.decode import Decoder
from streameval.decoding.fields import EventFields
from streameval.decoding.framing import BatchDecoder, FramedDecoder, ToText, remove_frame
from streameval.sources import protobuf
from streameval.sources.schemas import avro
from streameval.sources.schemas.registry import SchemaDefinition
from tests.benchmarks import traffic
from tests.benchmarks.timing import best_of
from tests.benchmarks.update import RANKED
from tests.schemas.messages import message_class
from tests.schemas.producing import framed, payload, record

EVENTS = 40_000
BATCH = 500
ROUNDS = 7
EXPOSED = (*RANKED, "item_coverage@20")
_TEXTS = {"type": "array", "items": "string"}
_FIELDS = {"user": "string", "variant": ["null", "string"], "ts": "double"}
_AVRO = json.dumps(record("Record", {**_FIELDS, "recommendations": _TEXTS, "interactions": _TEXTS}))
_PROTO = """
syntax = "proto3";
message Record {
  string user = 1; optional string variant = 2; double ts = 3;
  repeated string recommendations = 4; repeated string interactions = 5;
}
"""


class Plain(msgspec.Struct, gc=False):
    """The struct of a program that decodes only these records."""

    user: str
    variant: str
    ts: float
    recommendations: list[Any]
    interactions: list[Any]


def main() -> None:
    """Print microseconds per record, and ratios to decoding alone."""
    plain = _records(len(traffic.CATALOG))
    _formats(plain)
    counted = {
        "rank metrics": _count(plain, RANKED),
        "item exposures, 5,000 items": _count(_records(5_000), EXPOSED),
        "item exposures, 50,000 items": _count(plain, EXPOSED),
    }
    tasks = {"decode alone": lambda: _alone(plain), "columns": _columns(plain), **counted}
    _print(tasks, "decode alone")
    acted = _records(5_000, offline=True)
    tasks = {"1 to 10 interactions, alone": lambda: _alone(acted), "columns": _columns(acted)}
    _print(tasks | {"counts": _count(acted, RANKED)}, "1 to 10 interactions, alone")


def _formats(plain: Sequence[bytes]) -> None:
    """The same records with schemas, relative to JSON."""
    records = [msgspec.json.decode(line) for line in plain]
    schema = fastavro.parse_schema(json.loads(_AVRO))
    kind = message_class({"r.proto": _PROTO}, "Record")
    by_avro = [framed(1, payload(schema, event)) for event in records]
    by_protobuf = [framed(1, b"\0" + kind(**event).SerializeToString()) for event in records]
    tasks = {
        "json": _columns(plain),
        "json-schema": _columns([framed(1, line) for line in plain], remove_frame),
        "avro": _columns(by_avro, avro.reader(SchemaDefinition("AVRO", _AVRO), "s")),
        "protobuf": _columns(by_protobuf, protobuf.reader(kind, "s")),
    }
    _print(tasks, "json")


def _print(tasks: dict[str, Callable[[], None]], to: str) -> None:
    best = best_of(tasks, ROUNDS)
    for name, seconds in best.items():
        micros = f"{seconds / EVENTS * 1e6:6.2f} us a record"
        print(f"{name:>30}: {micros}, ratio to {to} {seconds / best[to]:5.2f}")


def _records(catalog: int, *, offline: bool = False) -> list[bytes]:
    """Lists of 20 of two variants; one in ten has a click, or each 1 to 10 interactions."""
    made = traffic.offline if offline else traffic.clicks
    return [
        msgspec.json.encode(
            {
                "user": f"user-{number % 5000}",
                "variant": "ab"[number % 2],
                "ts": 1_700_000_000.25 + number,
                "recommendations": event.recommendations,
                "interactions": event.interactions,
            }
        )
        for number, event in enumerate(made(EVENTS, catalog=catalog))
    ]


def _alone(records: Sequence[bytes]) -> None:
    decode = msgspec.json.Decoder(Plain).decode
    for value in records:
        decode(value)


def _batches(records: Sequence[bytes]) -> list[Sequence[bytes]]:
    return [records[start : start + BATCH] for start in range(0, EVENTS, BATCH)]


def _columns(records: Sequence[bytes], to_text: ToText | None = None) -> Callable[[], None]:
    """A task that decodes records as the pipeline does."""
    decoder: BatchDecoder[Decoded] = _decoder()
    if to_text is not None:
        decoder = FramedDecoder(decoder, to_text)
    batches = _batches(records)

    def task() -> None:
        for batch in batches:
            decoder.decode_many(batch)

    return task


def _count(records: Sequence[bytes], metrics: Sequence[str]) -> Callable[[], None]:
    decoder, batches = _decoder(), _batches(records)

    def task() -> None:
        accumulator = Accumulator(*metrics, catalog=len(traffic.CATALOG))
        for batch in batches:
            accumulator.update_many(decoder.decode_many(batch).batch)

    return task


def _decoder() -> Decoder:
    return Decoder(EventFields(time="ts", time_unit="s"), ["variant"])
