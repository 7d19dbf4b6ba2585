"""Only records whose schemas are missing wait, on a real broker; unknown ids are asked for once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from random import Random

import pytest

from streameval.decoding.framing import Encoding
from streameval.events.records import Partition, RecordBatch
from streameval.sources.schemas.records import Schemas
from streameval.sources.schemas.registry import Registry, RegistryOptions
from streameval.testing.broker import Broker
from tests.kafka.members import reading, until
from tests.kafka.topics import (
    awaited,
    by_partition,
    drained,
    fill,
    filled,
    on_each_client_at_night,
    opened,
)
from tests.kafka.topics import options as options_of
from tests.schemas.producing import framed
from tests.schemas.registries import SmallRegistry, register

ENCODING = Encoding("avro", "ms")
PARTITION = Partition("avro", 0)


class Stage:
    """The schemas of a topic, whose clock a test sets."""

    def __init__(self, registry: SmallRegistry, topic: str = "avro") -> None:
        self.registry = registry
        self.now = 0.0
        self.clock: Callable[[], float] = lambda: self.now
        client = Registry(RegistryOptions(url=registry.url), {})
        self.schemas = Schemas(client, {topic: ENCODING}, self._time)

    def _time(self) -> float:
        return self.clock()

    def schema(self, name: str) -> int:
        return register(self.registry.url, name, f'{{"type": "string", "doc": "{name}"}}')

    def prepare(self, *values: bytes | None) -> tuple[int, str | None]:
        batch = RecordBatch(
            partition=PARTITION, values=values, offsets=range(len(values)), next_offset=len(values)
        )
        return self.schemas.prepare(batch)


@pytest.fixture
def stage(registry: SmallRegistry) -> Iterator[Stage]:
    opened_stage = Stage(registry)
    with closing(opened_stage.schemas):
        yield opened_stage


@pytest.mark.kafka
@on_each_client_at_night
def test_while_the_registry_is_away_only_records_that_need_it_wait(
    broker: Broker, registry: SmallRegistry
) -> None:
    topic, plain = filled(broker, {0: [], 1: []}), filled(broker, {0: [b"5"]})
    stage = Stage(registry, topic)
    known, new = stage.schema("known"), stage.schema("new")
    first, other = Partition(topic, 0), Partition(topic, 1)
    settings = options_of(broker, topic, plain)
    with closing(stage.schemas), opened(settings, schemas=stage.schemas) as source:
        fill(broker, topic, {0: [framed(known, b"0")]})
        batches = drained(source, 2)
        registry.stop()
        late = [framed(new, b"2"), framed(known, b"3"), None, framed(new, b"6")]
        fill(broker, topic, {0: [framed(known, b"1"), *late], 1: [framed(known, b"4")]})
        batches += drained(source, 2)
        awaited(source, f"schema {new} is needed; {first} wait for it; still trying.")
        problem = str(source.status.problem)
        assert problem.startswith(f"the schema registry at {registry.url}: it cannot be reached (")
        assert source.status.connection_failures["schema_registry"] > 0
        fill(broker, plain, {0: [b"7"]})
        batches += drained(source, 1)
        stage.now += 60
        registry.start()
        batches += drained(source, 4)
        awaited(source, None)
    assert by_partition(batches) == {
        first: [framed(known, b"0"), framed(known, b"1"), *late],
        other: [framed(known, b"4")],
        Partition(plain, 0): [b"5", b"7"],
    }


@pytest.mark.kafka
@on_each_client_at_night
def test_records_that_wait_go_to_the_next_owner_of_their_partition(
    broker: Broker, registry: SmallRegistry
) -> None:
    topic = filled(broker, {0: [], 1: []})
    stage, other = Stage(registry, topic), Stage(registry, topic)
    new = stage.schema("new")
    values = {number: [framed(new, b"0"), framed(new, b"1")] for number in (0, 1)}
    registry.stop()
    fill(broker, topic, values)
    settings = options_of(broker, topic, group=topic)
    with closing(stage.schemas), closing(other.schemas), reading(settings, stage.schemas) as a:
        until(lambda: f"{topic}[1] wait for it" in str(a.source.status.problem), a)
        with reading(settings, other.schemas) as b:
            until(lambda: len(a.numbers) == len(b.numbers) == 1, a, b)
            assert a.told.values == b.told.values == {}
            stage.now = other.now = 60.0
            registry.start()
            until(lambda: a.told.values | b.told.values == values, a, b)
            assert sorted(a.told.values) == a.numbers
            assert sorted(b.told.values) == b.numbers


@pytest.mark.kafka
@on_each_client_at_night
def test_a_partition_that_waits_has_not_stalled(
    broker: Broker, registry: SmallRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streameval.sources.schemas.records._PAUSE_SECONDS", 0.0)
    topic = filled(broker, {0: [framed(1, b"0")]})
    stage = Stage(registry, topic)
    registry.stop()
    settings = options_of(broker, topic, group=topic)
    with closing(stage.schemas), reading(settings, stage.schemas, stall_seconds=0.01) as a:
        until(lambda: "wait for it" in str(a.source.status.problem), a)
        for _ in range(50):
            a.step(0.0)
        assert a.source.status.recoveries == {"seek": 0, "rejoin": 0}


def test_each_schema_is_asked_for_once(stage: Stage) -> None:
    ids = [stage.schema(f"s{n}") for n in range(4)]
    records = [framed(ids[n % 4], b"%d" % n) if n % 11 else None for n in range(300)]
    assert stage.prepare(*records) == (300, None)
    assert stage.prepare(*records) == (300, None)
    assert stage.registry.asked == [
        f"/schemas/ids/{number}" for number in (ids[1], ids[2], ids[3], ids[0])
    ]


def test_a_record_with_an_invalid_frame_does_not_wait(stage: Stage) -> None:
    stage.registry.stop()
    assert stage.prepare(b"", b"\0\0", b"{}", None, b"\1\0\0\0\7x") == (5, None)


def test_a_missing_schema_is_asked_for_again_later(stage: Stage) -> None:
    to_text, value = stage.schemas.to_text(ENCODING), framed(1, b"\x02x")
    assert stage.prepare(value) == (1, None)
    assert stage.schema("late") == 1
    stage.now += 59
    assert stage.prepare(value) == (1, None)
    assert len(stage.registry.asked) == 1
    stage.now += 2
    assert stage.prepare(value) == (1, None)
    assert to_text(value) == b'"x"'


def test_each_unknown_id_is_asked_for_once(stage: Stage) -> None:
    numbers = Random(7).sample(range(2**32), 600)
    values = [framed(number, b"") for number in numbers]
    for _ in range(2):
        assert stage.prepare(*values) == (len(numbers), None)
    possible = [f"/schemas/ids/{number}" for number in numbers if number < 2**31]
    assert stage.registry.asked == possible


def test_only_the_newest_unknown_ids_are_remembered(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streameval.sources.schemas.records._MAX_REFUSED", 10)
    values = [framed(number, b"") for number in range(1, 101)]
    for newest in (values, values[-10:]):
        assert stage.prepare(*newest) == (len(newest), None)
    assert len(stage.registry.asked) == 100
    assert stage.prepare(values[0]) == (1, None)
    assert len(stage.registry.asked) == 101


def test_a_registry_that_was_silent_is_left_alone_for_as_long(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = stage.schema("slow")
    monkeypatch.setattr("streameval.sources.schemas.registry.ANSWER_SECONDS", 0.3)
    silent_for = iter([0.0, 0.0, 0.0, 0.0, 5.0, 5.0])
    stage.clock = lambda: next(silent_for, stage.now)
    stage.registry.pace = 0.1
    (ready, problem) = stage.prepare(framed(number, b""))
    assert (ready, "no whole answer within 0.3 s" in str(problem)) == (0, True)
    stage.registry.pace = 0.0
    stage.now = 9.0
    assert stage.prepare(framed(number, b"")) == (0, problem)
    assert stage.schemas.failures == 1
    stage.now = 10.0
    assert stage.prepare(framed(number, b"")) == (1, None)


def test_so_many_unknown_ids_that_time_is_over_are_no_trouble(stage: Stage) -> None:
    moments = iter(range(100))
    stage.clock = lambda: float(next(moments))
    ready, problem = stage.prepare(*(framed(number, b"") for number in range(1, 50)))
    assert problem is None
    assert 0 < ready < 49
