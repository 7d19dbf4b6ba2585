"""Records of any bytes, with and without schemas: counted or refused, shown, and restarted."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias

from hypothesis import strategies as st
from msgspec.json import encode

from streameval.config import Config
from streameval.config.pipeline import new_ingest
from streameval.decoding.decode import Decoder
from streameval.decoding.fields import EventFields
from streameval.decoding.framing import FramedDecoder
from streameval.engine.capture import RuntimeStatus, SnapshotCapture
from streameval.engine.ingest import Ingest
from streameval.events.errors import RefusedRecordsError
from streameval.events.records import Partition
from streameval.exporters.page.page import page
from streameval.exporters.page.selection import Selection
from streameval.exporters.page.state import daemon_state
from streameval.exporters.prometheus import PrometheusExporter
from streameval.exporters.web.answers import snapshot_answer
from streameval.sources import protobuf
from streameval.sources.schemas import avro
from streameval.sources.schemas.registry import RejectedSchemaError, SchemaDefinition
from tests.batches import batch_of
from tests.decoding.records import (
    FIELDS,
    LABELS,
    anything,
    assert_as_alone,
    ids,
    json_values,
    mutilated,
    plain_records,
    records,
)
from tests.fuzz import configurations
from tests.schemas import producing
from tests.schemas.messages import Shown
from tests.schemas.producing import (
    AVRO,
    ITEM,
    avro_payloads,
    framed,
    protobuf_payloads,
)

Feed: TypeAlias = tuple[int, Sequence[bytes | None], bool]
"""Number of a log, a batch of it, and whether the process ends after it and goes on."""

Case: TypeAlias = tuple[int, Sequence[Feed]]
"""Number of a configuration, and what is read under it."""

_LOGS = (Partition("events", 0),)
_TIMES = st.sampled_from([0, 1, 60, 61, 299, 300, 3_600, 86_400, 1e9, -1, 2**62]) | anything


def _values(some: st.SearchStrategy[bytes]) -> st.SearchStrategy[list[bytes | None]]:
    odd = json_values() | st.binary(max_size=20) | mutilated(some)
    return st.lists(some | some | some | odd | st.none(), max_size=12)


def events() -> st.SearchStrategy[Case]:
    """Batches of one log, mostly of events."""
    batch = st.tuples(st.just(0), _values(records()), st.booleans())
    return st.tuples(st.integers(0, 2), st.lists(batch, max_size=5))


def _record(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[bytes]:
    named = {name: some | some | some | anything for name, some in fields.items()}
    return st.fixed_dictionaries({}, optional=named).map(
        lambda document: json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass")
    )


def streams() -> st.SearchStrategy[Case]:
    """Batches of two logs: lists that were shown, and what was done with them."""
    few = st.sampled_from(["a", "b", "c", 1, "1"])
    shown = _record(
        ts=_TIMES,
        request_id=few,
        user=few,
        variant=few,
        recommendations=st.lists(few | ids, max_size=4),
    )
    clicked = _record(
        ts=_TIMES,
        request_id=few,
        user=few,
        item=few,
        event_id=ids,
        gain=st.floats() | st.integers(),
        type=st.sampled_from(["click", "purchase", "view"]),
    )
    feeds = [
        st.tuples(st.just(log), _values(records), st.booleans())
        for log, records in enumerate((shown, clicked))
    ]
    return st.tuples(st.integers(0, 1), st.lists(st.one_of(feeds), max_size=8))


@contextmanager
def decoder() -> Iterator[Callable[[Case], None]]:
    with tempfile.TemporaryDirectory() as folder:
        configs = configurations.plain(Path(folder))
        yield lambda case: _counted(configs[case[0]], _LOGS, case[1])


@contextmanager
def join() -> Iterator[Callable[[Case], None]]:
    with tempfile.TemporaryDirectory() as folder:
        configs = configurations.joined(Path(folder))
        logs = [Partition(str(Path(folder) / name), 0) for name in ("shown", "clicked")]
        yield lambda case: _counted(configs[case[0]], logs, case[1])


def _counted(config: Config, logs: Sequence[Partition], feeds: Sequence[Feed]) -> None:
    ingest, home = new_ingest(config), logs[0]
    ingest.begin(home, dict.fromkeys(logs, 0))
    read: dict[Partition, list[bytes | None]] = {log: [] for log in logs}
    try:
        for number, values, ends in feeds:
            log = logs[number]
            read[log] += values
            ingest.apply(batch_of(log, values, len(read[log]) - len(values)))
            if ends:
                ingest = _restarted(config, ingest, read)
        ingest.end(logs)
    except RefusedRecordsError as error:
        if error.limit is None:
            raise
        return
    tally = ingest.partitions[home].tally
    refused = sum(tally.invalid.values()) + tally.tombstones
    assert tally.consumed == sum(map(len, read.values()))
    assert tally.consumed == tally.valid + refused + tally.duplicates
    _shown(config, ingest)


def _restarted(
    config: Config, ingest: Ingest, read: Mapping[Partition, Sequence[bytes | None]]
) -> Ingest:
    """One that goes on from what would have been saved, and reads again what came after it."""
    home, positions = next(iter(read)), ingest.positions
    again = new_ingest(config)
    again.restore(home, positions, _parts(ingest, home))
    assert _parts(again, home) == _parts(ingest, home)
    for log, values in read.items():
        again.apply(batch_of(log, values[positions[log] :], positions[log]))
    return again


def _parts(ingest: Ingest, home: Partition) -> dict[str, bytes]:
    return {section.name: b"".join(section.content()()) for section in ingest.sections(home)}


def _shown(config: Config, ingest: Ingest) -> None:
    """All that is made of it for somebody to read."""
    snapshots = SnapshotCapture(ingest.layout, source="fuzz", labels=config.labels, started_at=0.0)
    snapshot = snapshots.take(ingest.copied(), 1.0, RuntimeStatus())
    PrometheusExporter(version="1", first_exposure=0).exposition(snapshot)
    encode(snapshot_answer(snapshot))
    page(snapshot, daemon_state(snapshot, healthy=True), Selection())


Scanned: TypeAlias = tuple[EventFields, Sequence[str], Sequence[bytes | None]]
"""Fields, labels and records."""


def scanned() -> st.SearchStrategy[Scanned]:
    """Batches of records that are mostly plain."""
    damaged = mutilated(plain_records()) | mutilated(records()) | st.none()
    batch = st.lists(plain_records() | plain_records() | damaged, max_size=8)
    return st.tuples(st.sampled_from(FIELDS), st.sampled_from(LABELS), batch)


@contextmanager
def scanner() -> Iterator[Callable[[Scanned], None]]:
    yield lambda case: assert_as_alone(*case)


Framed: TypeAlias = tuple[str, Sequence[bytes], bytes]
"""A format, records without their frames, and the text of an Avro schema."""

_FIELDS = EventFields(
    recommendations="page.items", item="sku", interactions="clicked", time="at", time_unit="us"
)
_TEXT = json.dumps(AVRO)


def cases() -> st.SearchStrategy[Framed]:
    """Records that were damaged on the way, and bytes that are none."""
    written = {
        "avro": avro_payloads(producing.events(9)),
        "protobuf": protobuf_payloads(producing.events(9)),
    }
    drawn = [
        st.tuples(
            st.just(kind),
            st.lists(mutilated(st.sampled_from(some)) | st.binary(max_size=40), max_size=8),
            json_values() | mutilated(st.just(_TEXT.encode())),
        )
        for kind, some in written.items()
    ]
    return st.one_of(drawn)


@contextmanager
def schemas() -> Iterator[Callable[[Framed], None]]:
    """Reads records by their schemas, and then as JSON."""
    item = {"shop.Item": json.dumps(ITEM)}
    readers = {
        "avro": avro.reader(SchemaDefinition("AVRO", _TEXT, item), "us"),
        "protobuf": protobuf.reader(Shown, "us"),
    }

    def check(case: Framed) -> None:
        kind, payloads, text = case
        decoded = FramedDecoder(Decoder(_FIELDS, ["country"]), readers[kind]).decode_many(
            [framed(1, payload) for payload in payloads]
        )
        indices = sorted([*decoded.indices, *(index for index, _ in decoded.invalid)])
        assert indices == list(range(len(payloads)))
        _compiled(text.decode("utf-8", "replace"), [framed(1, payload) for payload in payloads])

    yield check


def _compiled(text: str, records: Sequence[bytes]) -> None:
    """Compile what may be a schema, and read records with it that are not of it."""
    with suppress(RejectedSchemaError):
        reader = avro.reader(SchemaDefinition("AVRO", text, {"shop.Item": json.dumps(ITEM)}), "ms")
        FramedDecoder(Decoder(_FIELDS, []), reader).decode_many(records)
