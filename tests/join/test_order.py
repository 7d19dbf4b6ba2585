"""A join is a function of its events: partitions, orders of arrival and copies change nothing.

And it is that of tables, for all records that are neither late nor from the future.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import msgspec
import pytest

from streameval.config.states import newest_checkpoints, restore
from streameval.engine.capture import lifetimes_of
from streameval.evaluation.partials import merged, partials
from streameval.join.attribution import OUTCOMES, AttributionKey, OutcomeCounts
from streameval.testing.broker import Broker
from tests.daemon.running import kafka_source, running
from tests.effort import sampled, thorough
from tests.join.orders import (
    METRICS,
    SECOND,
    START,
    Record,
    Refused,
    World,
    arrived,
    by_key,
    content,
    counted,
    counts,
    joined_tables,
    outcomes,
    states,
    undelayed,
    world_of,
)
from tests.join.test_daemon import ended, streams
from tests.kafka.topics import create, fill

DAEMON = """
metrics = {metrics}
labels = ["variant"]
event = {{ time = "ts", time_unit = "ms" }}
state = {{ path = "state", interval = "1s" }}
web = {{ listen = "127.0.0.1:0" }}
[attribution]
impressions = "{shown}"
window = "30s"
lateness = "{world.lateness}s"
idle_timeout = "1s"
combine = "{combine}"
interactions = [{{ source = "{done}", event_id = "event_id", gain = "gain" }}]
"""


@pytest.mark.parametrize("key", ["request_id", "user_item"])
def test_ids_numbered_for_each_user_count_with_any_number_of_partitions(
    key: AttributionKey,
) -> None:
    shown = [
        {"ts": START + 100 * n, "request_id": f"r{n}", "user": f"u{n % 20}", "variant": "x"}
        | {"recommendations": ["a", "b"]}
        for n in range(200)
    ]
    if key == "user_item":
        # Numbered for each user, too.
        shown = [{**row, "request_id": f"r{n // 20}"} for n, row in enumerate(shown)]
    done = [
        {**row, "item": "a", "type": "click", "event_id": f"e{n // 20}"}
        for n, row in enumerate(shown)
    ]
    world = World(shown, done, key)
    result = [counted(world, (shown, done), partitions) for partitions in (1, 2, 4, 16)]
    for ingest in result:
        assert [(of.counted, of.duplicate) for of in outcomes(ingest)] == [(200, 0)] * 2
    assert len(set(map(counts, result))) == 1


@pytest.mark.parametrize("seed", range(200 if thorough() else 4))
def test_no_order_of_arrival_and_no_partitions_change_a_byte(seed: int) -> None:
    world, random = world_of(seed), Random(seed)
    logs = [arrived(random, world) for _ in range(6)]
    first, *others = [counted(world, log) for log in logs]
    assert [(of.late, of.future, of.open) for of in outcomes(first)] == [(0, 0, 0)] * 2
    states = [content(ingest) for ingest in (first, *others)]
    assert states == [states[0]] * 6
    assert [outcomes(ingest) for ingest in others] == [outcomes(first)] * 5
    for partitions in (2, 4, 16):
        divided = counted(world, random.choice(logs), partitions)
        assert counts(divided) == counts(first)
        assert outcomes(divided) == outcomes(first)


@pytest.mark.parametrize("seed", range(200 if thorough() else 8))
def test_the_tables_of_the_same_records_are_counted_to_the_same_bytes(seed: int) -> None:
    world, refused = world_of(seed), Refused()
    logs = arrived(Random(seed), world, late=0.1)
    daemon = counted(world, logs, listener=refused)
    rest = [
        [line for offset, line in enumerate(log) if (number, offset) not in refused.found]
        for number, log in enumerate(logs)
    ]
    tables = joined_tables(world, rest)
    assert sum(of.late for of in outcomes(daemon)) == len(refused.found) > 0
    of_rows = [msgspec.convert(of, OutcomeCounts, from_attributes=True) for of in tables.counts]
    assert undelayed(daemon) == of_rows
    cells = merged(partials([tables.lists], *METRICS, by=["variant"]))
    assert {cell.labels: of.state_dict() for cell, of in cells.items()} == states(daemon)


@pytest.mark.parametrize("partitions", sampled([4, 1, 2, 16], 4))
def test_a_daemon_counts_the_partitions_of_topics_as_the_tables_are_counted(
    broker: Broker, tmp_path: Path, partitions: int
) -> None:
    world = world_of(4, lists=900, users=500)
    assert world.key == "request_id"
    impression_topic, done = (
        create(broker, partitions=partitions),
        create(broker, partitions=partitions),
    )
    logs = arrived(Random(partitions), world)
    for topic, log in zip((impression_topic, done), logs, strict=True):
        fill(broker, topic, by_key(world, log, partitions))
    config = DAEMON.format(
        metrics=METRICS, shown=impression_topic, done=done, world=world, **world.more
    )
    with running(config + kafka_source(broker, impression_topic, done), tmp_path) as daemon:
        daemon.until(lambda: ended(daemon, len(world.shown) + len(world.done)))
        result = [of["outcomes"] for of in streams(daemon)]
        assert daemon.stop() == 0
    _, ingest = restore(newest_checkpoints([str(tmp_path / "state")], print), None, print)
    tables = joined_tables(world, logs)
    assert result == [{name: getattr(of, name) for name in OUTCOMES} for of in tables.counts]
    cells = merged(partials([tables.lists], *METRICS, by=["variant"]))
    assert {cell.labels: of.state_dict() for cell, of in cells.items()} == states(ingest)


def test_records_within_the_lateness_are_not_from_the_future() -> None:
    random = Random(0)
    shown = [
        {"ts": START + 250 * n, "request_id": f"r{n}", "user": f"u{n}", "variant": "x"}
        | {"recommendations": ["a"]}
        for n in range(2_000)
    ]
    done = [{**row, "item": "a", "type": "click", "event_id": "e"} for row in shown]

    def arrival(record: Record) -> float:
        delay = 0 if random.random() < 0.1 else random.uniform(60, 120)
        return float(record["ts"] + SECOND * delay)

    world = World(shown, done, lateness=121)
    logs = [sorted(log, key=arrival) for log in (shown, done)]
    ingest = counted(world, logs)
    assert [(of.counted, of.late, of.future) for of in outcomes(ingest)] == [(2_000, 0, 0)] * 2


def test_of_copies_the_earliest_counts_and_of_equal_times_the_smallest_content() -> None:
    def shown(after: int, variant: str) -> Record:
        at = START + after * SECOND
        return {"ts": at, "request_id": "r", "user": "u", "recommendations": ["a"]} | {
            "variant": variant
        }

    # 20 s repeats 0 s; 40 s does not, as 20 s does not count.
    lists = [shown(40, "z"), shown(20, "y"), shown(0, "b"), shown(0, "a")]
    for log in (lists, lists[::-1]):
        ingest = counted(World(lists, [], lateness=60), (log, []))
        assert outcomes(ingest)[0].duplicate == 2
        (family,) = lifetimes_of(ingest, ["variant"])
        assert sorted(family.labels.values()) == [("a",), ("z",)]
