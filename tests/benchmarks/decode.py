"""What columns, and counting them, cost against msgspec decoding of the same bytes alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import fastavro
import msgspec
from google.protobuf.message_factory import GetMessageClass

from streameval.accumulator import Accumulator
from streameval.decoding.columns import Decoded
from streameval.decoding.decode import Decoder
from streameval.decoding.fields import EventFields, Format, TimeUnit
from streameval.decoding.framing import BatchDecoder, FramedDecoder, ToText, unframed
from streameval.events import Id
from streameval.sources.schemas import avro, protobuf
from streameval.sources.schemas.protobuf import compiled
from streameval.sources.schemas.registry import Definition
from tests.benchmarks import traffic
from tests.benchmarks.timing import best_of
from tests.schemas.producing import framed, payload

EVENTS = 40_000
BATCH = 500
RANKED = ("hit_rate@10", "precision@10", "recall@10", "mrr@10", "map@10", "ndcg@20")
_AVRO = json.dumps(
    {
        "type": "record",
        "name": "Record",
        "fields": [
            {"name": "user", "type": "string"},
            {"name": "variant", "type": ["null", "string"]},
            {"name": "country", "type": ["null", "string"]},
            {"name": "ts", "type": "double"},
            {"name": "recommendations", "type": {"type": "array", "items": "string"}},
            {"name": "interactions", "type": {"type": "array", "items": "string"}},
        ],
    }
)
_PROTO = """
syntax = "proto3";
message Record {
  string user = 1; optional string variant = 2; optional string country = 3; double ts = 4;
  repeated string recommendations = 5; repeated string interactions = 6;
}
"""
EXPOSED = (*RANKED, "item_coverage@20")


class Plain(msgspec.Struct, gc=False):
    """What a program that knows its records would decode into."""

    user: str
    variant: str
    ts: float | datetime
    recommendations: list[Any]
    interactions: list[Any]


class Case(msgspec.Struct):
    """Records of one kind, and what is read of them."""

    records: Sequence[bytes | None]
    unit: TimeUnit | None = "s"
    dimensions: Sequence[str] = ("variant",)
    to_text: ToText | None = None

    def alone(self) -> None:
        """Decode each, and nothing else."""
        decode = msgspec.json.Decoder(Plain).decode
        for record in self.records:
            if record is not None:
                decode(record)

    def columns(self) -> Callable[[], None]:
        """Decode them as the pipeline does."""
        decoder: BatchDecoder[Decoded] = self.decoder()
        if self.to_text is not None:
            decoder = FramedDecoder(decoder, self.to_text)
        batches = self.batches()

        def task() -> None:
            for batch in batches:
                decoder.decode_many(batch)

        return task

    def decoder(self) -> Decoder:
        """As configured for these records."""
        return Decoder(EventFields(time=self.unit and "ts", time_unit=self.unit), self.dimensions)

    def batches(self) -> list[Sequence[bytes | None]]:
        """As a source would deliver them."""
        return [self.records[start : start + BATCH] for start in range(0, EVENTS, BATCH)]


def main() -> None:
    """Print microseconds per record, and their ratios to decoding alone."""
    plain = _records(_same)
    for name, case in _cases(plain).items():
        best = best_of({"alone": case.alone, "columns": case.columns()}, rounds=7)
        _print(f"{name}, decode alone", best["alone"], best["alone"])
        _print(f"{name}, columns", best["columns"], best["alone"])
    _formats(plain)
    counted = {
        "rank metrics": _count(plain, RANKED),
        "item exposures, 5,000 items": _count(_records(_few), EXPOSED),
        "item exposures, 50,000 items": _count(plain, EXPOSED),
    }
    best = best_of({"alone": Case(plain).alone, **counted}, rounds=7)
    for name in counted:
        _print(f"{name}, columns and one series", best[name], best["alone"])


def _formats(plain: Sequence[bytes]) -> None:
    """The same records with schemas: to columns, as ratios to those of JSON."""
    records = [msgspec.json.decode(each) for each in plain]
    schema = fastavro.parse_schema(json.loads(_AVRO))
    kind = GetMessageClass(compiled({"r.proto": _PROTO}).message_types_by_name["Record"])
    written: dict[Format, tuple[ToText, list[bytes]]] = {
        "json-schema": (unframed, [framed(1, each) for each in plain]),
        "avro": (
            avro.reader(Definition("AVRO", _AVRO), "s"),
            [framed(1, payload(schema, each)) for each in records],
        ),
        "protobuf": (
            protobuf.reader(Definition("PROTOBUF", _PROTO), "s"),
            [framed(1, b"\0" + kind(**each).SerializeToString()) for each in records],
        ),
    }
    tasks = {"json": Case(plain).columns()}
    tasks |= {name: Case(found, to_text=how).columns() for name, (how, found) in written.items()}
    best = best_of(tasks, rounds=7)
    for name in tasks:
        _print(f"format {name}, columns", best[name], best["json"])


def _cases(plain: Sequence[bytes]) -> dict[str, Case]:
    objects = _records(_object)
    tenth = [number % 10 == 0 for number in range(EVENTS)]
    return {
        "no time, no label": Case(plain, None, []),
        "no time": Case(plain, None),
        "s": Case(plain),
        "s, two labels": Case(plain, "s", ["variant", "country"]),
        "s of seven digits": Case(
            _records(_same, lambda seconds: round(seconds * 1.000_123_456_7, 7))
        ),
        "ms": Case(_records(_same, lambda seconds: int(seconds * 1_000)), "ms"),
        "us": Case(_records(_same, lambda seconds: int(seconds * 1_000_000)), "us"),
        "iso8601": Case(_records(_same, lambda time: datetime.fromtimestamp(time, UTC)), "iso8601"),
        "integer ids": Case(_records(_integer)),
        "objects with scores": Case(objects),
        "a tenth of them objects": Case(
            [
                other if rare else usual
                for rare, usual, other in zip(tenth, plain, objects, strict=True)
            ]
        ),
        "a tenth of them tombstones": Case(
            [None if rare else usual for rare, usual in zip(tenth, plain, strict=True)]
        ),
    }


def _print(name: str, seconds: float, alone: float) -> None:
    print(f"{name:>50}: {seconds / EVENTS * 1e6:6.2f} us a record, ratio {seconds / alone:5.2f}")


def _records(
    form: Callable[[Id], str | int | dict[str, object]],
    time: Callable[[float], float | datetime] = float,
) -> list[bytes]:
    """Click traffic of two variants, K=20, one list in ten with one click."""
    return [
        msgspec.json.encode(
            {
                "user": f"user-{number % 5000}",
                "variant": "ab"[number % 2],
                "country": f"country-{number % 7}",
                "ts": time(1_700_000_000.25 + number),
                "recommendations": list(map(form, event.recommendations)),
                "interactions": list(map(form, event.interactions)),
            }
        )
        for number, event in enumerate(traffic.clicks(EVENTS))
    ]


def _same(item: Id) -> str:
    return str(item)


def _few(item: Id) -> str:
    return f"item-{_integer(item) % 5_000}"


def _integer(item: Id) -> int:
    return int(str(item).removeprefix("item-"))


def _object(item: Id) -> dict[str, object]:
    return {"id": item, "score": 0.5}


def _count(records: Sequence[bytes], metrics: Sequence[str]) -> Callable[[], None]:
    case = Case(records)
    decoder, batches = case.decoder(), case.batches()

    def task() -> None:
        accumulator = Accumulator(*metrics, catalog=len(traffic.CATALOG))
        for batch in batches:
            accumulator.update_many(decoder.decode_many(batch).batch)

    return task


if __name__ == "__main__":
    main()
