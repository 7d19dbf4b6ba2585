"""One range of event times at every door, and the same outcome for a time outside it."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streameval import Accumulator, Columns
from streameval.decoding.decode import Decoder
from streameval.decoding.fields import EventFields, TimeUnit
from streameval.events.errors import InvalidEventError
from streameval.join.attribution import InteractionOptions
from streameval.join.interactions import InteractionDecoder
from streameval.partials import Counter
from streameval.sources.protobuf import reader
from streameval.sources.schemas import avro
from streameval.sources.schemas.registry import SchemaDefinition
from tests.cli.program import run, write_file
from tests.schemas.messages import message_class
from tests.schemas.producing import framed, record

SECOND: Final = 1_000_000
OUTSIDE: Final = {
    "the zero time of Go and .NET": ("0001-01-01T00:00:00Z", -62_135_596_800),
    "a zero time in another zone": ("0001-01-01T00:00:00-08:00", -62_135_568_000),
    "year 0 in UTC": ("0001-01-01T00:00:00+14:00", -62_135_647_200),
    "the last time of .NET": ("9999-12-31T23:59:59.9999999Z", 253_402_300_800),
    "year 10000 in UTC": ("9999-12-31T23:59:59-01:00", 253_402_304_399),
}
INSIDE: Final = {"the first day": ("0002-01-01T00:00:00Z", -62_104_060_800)}

Door = Callable[[str, int, Path], str]
"""From a time, as text and in seconds, to "counted" or the reason to refuse it."""


def event_of(time: object) -> dict[str, object]:
    return {"recommendations": ["a"], "interactions": [], "ts": time}


def _json(time: object, unit: TimeUnit, **fields: Any) -> str:
    decoder = Decoder(EventFields(time="ts", time_unit=unit, **fields), [])
    return _outcome(decoder.decode_many([json.dumps(event_of(time)).encode()]))


def _outcome(decoded: Any) -> str:
    return decoded.invalid[0][1].reason if decoded.invalid else "counted"


def _interaction(text: str, _seconds: int, _folder: Path) -> str:
    event = EventFields(time="ts", time_unit="iso8601")
    decoder = InteractionDecoder(InteractionOptions(source="clicks"), event, "request_id")
    return _outcome(
        decoder.decode_many([json.dumps({"request_id": "r", "item": "a", "ts": text}).encode()])
    )


def _avro(_text: str, seconds: int, _folder: Path) -> str:
    fields = {"recommendations": {"type": "array", "items": "string"}, "interactions": "null"}
    schema = record("R", fields | {"ts": {"type": "long", "logicalType": "timestamp-millis"}})
    plain = fastavro.parse_schema(record("R", fields | {"ts": "long"}))
    stream = BytesIO()
    fastavro.schemaless_writer(stream, plain, event_of(seconds * 1_000) | {"interactions": None})
    read = avro.reader(SchemaDefinition("AVRO", json.dumps(schema)), "iso8601")
    decoder = Decoder(EventFields(time="ts", time_unit="iso8601"), [], search=None)
    return _outcome(decoder.decode_many([read(framed(1, stream.getvalue()))]))


_PROTO = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
message Shown { repeated string recommendations = 1; google.protobuf.Timestamp ts = 2; }
"""


def _protobuf(_text: str, seconds: int, _folder: Path) -> str:
    message_type = message_class({"shown.proto": _PROTO}, "Shown")
    message = message_type(recommendations=["a"], ts={"seconds": seconds})
    value = reader(message_type, "iso8601")(framed(1, b"\0" + message.SerializeToString()))
    decoder = Decoder(EventFields(time="ts", time_unit="iso8601"), [], search=None)
    return _outcome(decoder.decode_many([value]))


def _csv(text: str, _seconds: int, folder: Path) -> str:
    rows = f"recommendations,interactions,ts\na,,2026-01-01T00:00:00Z\na,,{text}\n"
    return _evaluated(write_file(folder / "events.csv", rows))


def _parquet(_text: str, seconds: int, folder: Path) -> str:
    times = pa.array([0, seconds], pa.timestamp("s", "UTC"))
    table = pa.table({"recommendations": [["a"]] * 2, "interactions": [[], []], "ts": times})
    pq.write_table(table, folder / "events.parquet")
    return _evaluated(folder / "events.parquet")


def _evaluated(path: Path) -> str:
    done = run("evaluate", path, "-m", "ctr", "--every", "1d", "--time", "ts", "--format", "json")
    if done.returncode:
        # A table is refused as a whole, and names the row.
        problems = ("not in the years 2 to 9998", "is not a time in")
        return "invalid_time" if any(text in done.stderr for text in problems) else done.stderr
    return "counted"


def _python(give: Callable[[int], object]) -> Door:
    def door(_text: str, seconds: int, _folder: Path) -> str:
        try:
            give(seconds * SECOND)
        except InvalidEventError as error:
            return error.reason
        return "counted"

    return door


def _columns(time: int) -> None:
    Accumulator("ctr").update_many(
        Columns(recommendations=[["a"]], interactions=[[]], times=np.array([time]))
    )


def _partial(time: int) -> None:
    table = pa.table({"recommendations": [["a"]], "interactions": [[]], "times": [time]})
    Counter("ctr", every="1d").accumulators([table])


DOORS: Final[dict[str, Door]] = {
    "JSON": lambda text, _seconds, _folder: _json(text, "iso8601"),
    "JSON by the general decoder": lambda text, _seconds, _folder: _json(
        text, "iso8601", recommendations="recommendations[]"
    ),
    "seconds": lambda _text, seconds, _folder: _json(float(seconds), "s"),
    "milliseconds": lambda _text, seconds, _folder: _json(seconds * 1_000, "ms"),
    "microseconds": lambda _text, seconds, _folder: _json(seconds * SECOND, "us"),
    "interactions of a join": _interaction,
    "Avro": _avro,
    "Protobuf": _protobuf,
    "CSV": _csv,
    "parquet": _parquet,
    "update": _python(lambda time: Accumulator("ctr").update(["a"], [], ts=time)),
    "columns": _python(_columns),
    "partials": _python(_partial),
}


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_a_time_outside_the_range_is_refused_at_every_door(door: Door, tmp_path: Path) -> None:
    outcomes = {name: door(*time, tmp_path) for name, time in (OUTSIDE | INSIDE).items()}
    assert outcomes == dict.fromkeys(OUTSIDE, "invalid_time") | dict.fromkeys(INSIDE, "counted")


def test_a_time_without_an_offset_is_utc_in_a_table(tmp_path: Path) -> None:
    lines = ["recommendations,interactions,ts", *("a,,2026-01-01 08:00:00", "a,,2026-01-02")]
    named = write_file(tmp_path / "naive.csv", "\n".join([*lines, "a,,2026-01-03 08:00Z\n"]))
    arguments = ("-m", "ctr", "--every", "1d", "--time", "ts", "--format", "csv")
    starts = [
        row["start"] for row in csv.DictReader(run("evaluate", named, *arguments).stdout.split())
    ]
    assert starts == [f"2026-01-0{day}T00:00:00Z" for day in (1, 2, 3)]
