"""Only records whose schemas are missing wait."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from random import Random

import pytest

from streameval.decoding.framing import Encoding
from streameval.events.records import Partition, RecordBatch
from streameval.sources.schemas.registry import Registry, RegistryOptions
from streameval.sources.schemas.source import Schemas, SchemaSource
from streameval.sources.source import Positions
from tests.effort import PATIENCE
from tests.logs.group import Group, Log
from tests.logs.source import LogSource
from tests.schemas.producing import framed
from tests.schemas.registries import SmallRegistry, register, small_registry

AVRO, PLAIN = (Partition("avro", 0), Partition("avro", 1)), Partition("plain", 0)
ENCODING = Encoding("avro", "ms")


class Stage:
    """A log of two topics, one with schemas, a group, and a member that reads it."""

    def __init__(self, registry: SmallRegistry) -> None:
        self.registry = registry
        self.log = Log()
        self.log.add_topic("avro", partitions=2)
        self.log.add_topic("plain", partitions=1)
        self.group = Group(self.log, ["avro", "plain"], automatic=True)
        self.now = 0.0
        self.schemas = Schemas(Registry(RegistryOptions(url=registry.url), {}), lambda: self.now)
        self.schemas.readers(ENCODING)
        self.members: list[SchemaSource] = []

    def member(self, name: str, positions: dict[Partition, int] | None = None) -> SchemaSource:
        member_source = SchemaSource(LogSource(self.group, name), self.schemas, {"avro": ENCODING})
        member_source.open(Positions(positions))
        self.members.append(member_source)
        return member_source

    def schema(self, name: str) -> int:
        return register(self.registry.url, name, f'{{"type": "string", "doc": "{name}"}}')

    def write(self, partition: Partition, *values: bytes | None) -> None:
        for value in values:
            self.log.append(partition, value)


@pytest.fixture
def stage() -> Iterator[Stage]:
    with small_registry() as registry:
        opened = Stage(registry)
        yield opened
        for member in opened.members:
            member.close()


def polled(source: SchemaSource, until: Callable[[list[RecordBatch]], bool]) -> list[RecordBatch]:
    """Poll until a condition on the batches is true."""
    batches: list[RecordBatch] = []
    deadline = time.monotonic() + PATIENCE
    while not until(batches):
        assert time.monotonic() < deadline, (batches, source.status.trouble)
        received = source.poll(0.01)
        assert len({batch.partition for batch in received}) == len(received)
        batches += received
        time.sleep(0.001)
    return batches


def values(batches: list[RecordBatch], partition: Partition) -> list[tuple[int, bytes | None]]:
    mine = [batch for batch in batches if batch.partition == partition]
    return [pair for batch in mine for pair in zip(batch.offsets, batch.values, strict=True)]


def count(batches: list[RecordBatch]) -> int:
    return sum(len(batch.values) for batch in batches)


def test_each_record_is_delivered_once_and_in_order_for_any_schemas(stage: Stage) -> None:
    ids = [stage.schema(f"s{n}") for n in range(4)]
    records = [framed(ids[n % 4], b"%d" % n) if n % 11 else None for n in range(300)]
    stage.write(AVRO[0], *records)
    stage.write(PLAIN, b"p")
    source = stage.member("a")
    batches = polled(source, lambda received: count(received) == 301)
    assert values(batches, AVRO[0]) == list(enumerate(records))
    # Whether it answers at all may have been asked first.
    asked = [path for path in stage.registry.asked if path != "/schemas/types"]
    assert sorted(asked) == [f"/schemas/ids/{schema_id}" for schema_id in ids]
    assert source.status.trouble is None


def test_while_the_registry_is_unavailable_only_records_that_need_it_wait(stage: Stage) -> None:
    cached, new = stage.schema("known"), stage.schema("new")
    stage.write(AVRO[0], framed(cached, b"0"))
    source = stage.member("a")
    polled(source, lambda received: count(received) == 1)
    stage.registry.stop()
    stage.write(AVRO[0], framed(cached, b"1"), framed(new, b"2"), framed(cached, b"3"))
    stage.write(AVRO[1], framed(cached, b"4"))
    stage.write(PLAIN, b"5")
    batches = polled(
        source, lambda received: count(received) == 3 and source.status.trouble is not None
    )
    assert values(batches, AVRO[0]) == [(1, framed(cached, b"1"))]
    trouble = source.status.trouble
    assert trouble is not None
    assert "it cannot be reached" in trouble
    assert trouble.endswith(
        f"; schema {new} is needed; records of avro[0] wait for it; still trying."
    )
    assert stage.schemas.failures["unreachable"] > 0
    stage.write(AVRO[0], framed(cached, b"6"))
    stage.registry.start()
    batches = polled(source, lambda received: count(received) == 3)
    assert values(batches, AVRO[0]) == [
        (2, framed(new, b"2")),
        (3, framed(cached, b"3")),
        (4, framed(cached, b"6")),
    ]
    assert source.status.trouble is None


def test_waiting_records_of_a_revoked_partition_are_dropped(stage: Stage) -> None:
    new = stage.schema("new")
    stage.registry.stop()
    for partition in AVRO:
        stage.write(partition, framed(new, b"0"), framed(new, b"1"))
    first = stage.member("a")
    polled(first, lambda _: all(str(place) in (first.status.trouble or "") for place in AVRO))
    second = SchemaSource(LogSource(stage.group, "b"), stage.schemas, {"avro": ENCODING})
    second.open(Positions())
    polled(first, lambda _: len(stage.group.held_by("b")) > 0)
    stage.registry.start()
    moved = [place for place in stage.group.held_by("b") if place in AVRO]
    assert moved
    theirs = polled(second, lambda received: count(received) == 2 * len(moved))
    mine = polled(first, lambda received: count(received) >= 2 * (2 - len(moved)))
    # What it may not deliver it would deliver now.
    mine += [batch for _ in range(5) for batch in first.poll(0.01)]
    assert count(mine) == 2 * (2 - len(moved))
    assert {batch.partition for batch in theirs if batch.values} == set(moved)
    assert {batch.partition for batch in mine if batch.values} == set(AVRO) - set(moved)
    second._source.close()


def test_a_record_with_an_invalid_frame_does_not_wait(stage: Stage) -> None:
    stage.registry.stop()
    stage.write(AVRO[0], b"", b"\0\0", b"{}", None, b"\1\0\0\0\7x")
    source = stage.member("a")
    assert count(polled(source, lambda received: count(received) == 5)) == 5


def test_the_source_reports_trouble_until_the_registry_answers(stage: Stage) -> None:
    stage.registry.stop()
    source = stage.member("a")
    assert "has not answered yet" in str(source.status.trouble)
    polled(source, lambda _: "it cannot be reached" in str(source.status.trouble))
    stage.registry.start()
    polled(source, lambda _: source.status.trouble is None)
    stage.registry.stop()
    stage.write(PLAIN, b"p")
    polled(source, lambda received: count(received) == 1)
    assert source.status.trouble is None


def test_a_missing_schema_is_requested_again_later(stage: Stage) -> None:
    stage.write(AVRO[0], framed(1, b"\x02x"))
    source = stage.member("a")
    polled(source, lambda received: count(received) == 1)
    assert stage.schema("late") == 1
    readers = stage.schemas.readers(ENCODING)
    refusing = readers[framed(1, b"")]
    stage.write(AVRO[0], framed(1, b"\x02x"))
    polled(source, lambda received: count(received) == 1)
    assert readers[framed(1, b"")] is refusing
    stage.now += 61
    stage.write(AVRO[0], framed(1, b"\x02x"))
    polled(source, lambda received: count(received) == 1)
    assert readers[framed(1, b"")](framed(1, b"\x02x")) == b'"x"'


def test_each_unknown_id_is_asked_for_once(stage: Stage) -> None:
    numbers = Random(7).sample(range(2**32), 600)
    stage.write(AVRO[0], *(framed(number, b"") for number in numbers))
    source = stage.member("a")
    polled(source, lambda received: count(received) == len(numbers))
    possible = {f"/schemas/ids/{number}" for number in numbers if number < 2**31}
    asked = [path for path in stage.registry.asked if path != "/schemas/types"]
    assert sorted(asked) == sorted(possible)
    # None of them is asked for again before its time.
    stage.write(AVRO[0], *(framed(number, b"") for number in numbers))
    polled(source, lambda received: count(received) == len(numbers))
    assert len(stage.registry.asked) <= len(asked) + 1


def test_only_the_newest_unknown_ids_are_remembered(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streameval.sources.schemas.source._MAX_REFUSED", 10)
    stage.write(AVRO[0], *(framed(number, b"") for number in range(1, 101)))
    source = stage.member("a")
    polled(source, lambda received: count(received) == 100)
    assert len(stage.schemas.readers(ENCODING)) <= 10
    # An id that was forgotten before its record was delivered would be asked for again.
    assert len(set(stage.registry.asked)) == len(stage.registry.asked) <= 101


def test_a_silent_registry_is_trouble_before_its_deadline(stage: Stage) -> None:
    number = stage.schema("slow")
    source = stage.member("a")
    polled(source, lambda _: source.status.trouble is None)
    stage.registry.pace = 1.0
    stage.write(AVRO[0], framed(number, b"x"))
    polled(source, lambda _: f"/schemas/ids/{number}" in stage.registry.asked)
    stage.now += 5
    polled(source, lambda _: source.status.trouble is not None)
    assert f"has not answered for schema {number} yet; records of avro[0]" in str(
        source.status.trouble
    )
    assert stage.schemas.waiting == 1
    stage.registry.pace = 0.0


def test_loading_schemas_for_a_sample_has_a_time_limit(stage: Stage) -> None:
    number = stage.schema("sample")
    assert stage.schemas.load(ENCODING, [framed(number, b"\x02x"), None], PATIENCE)
    stage.registry.stop()
    assert stage.schemas.load(ENCODING, [framed(number, b"\x02x")], PATIENCE)
    assert not stage.schemas.load(ENCODING, [framed(number + 1, b"\x02x")], 0.05)


def test_the_source_can_be_closed_while_records_wait(stage: Stage) -> None:
    stage.registry.stop()
    stage.write(AVRO[0], framed(1, b"x"))
    source = stage.member("a")
    polled(source, lambda _: source.status.trouble is not None)
    with closing(source):
        pass
    assert source.status.trouble is not None
