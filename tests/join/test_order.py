"""A join is a function of its events: partitions, orders of arrival and copies change nothing.

And it is that of tables, for all records that are neither late nor from the future.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from random import Random
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from zlib import crc32

import msgspec
import pyarrow as pa
import pytest

from streameval import Accumulator
from streameval.attribution import Attribution, joined
from streameval.config.config import Config
from streameval.config.pipeline import new_ingest
from streameval.decoding.fields import EventFields
from streameval.engine.capture import lifetimes_of
from streameval.engine.ingest import Ingest
from streameval.evaluation.partials import merged, partials
from streameval.events.records import Partition
from streameval.join.joiner import Listener
from streameval.join.open_records import OpenLists, OpenRecords
from streameval.join.options import (
    AttributionOptions,
    InteractionOptions,
    Key,
    Outcome,
    OutcomeCounts,
)
from streameval.join.state import JoinedState
from streameval.sources.options import FilesOptions
from tests.batches import batch_of, content_of
from tests.effort import thorough

SECOND: Final = 1_000
START: Final = 1_700_000_000 * SECOND
ITEMS: Final = [f"i{number}" for number in range(8)]
TOPICS: Final = ("shown", "done")
METRICS: Final = ["hit_rate@3", "ndcg@3", "value_per_list", "hit_rate(type=cart)@3"]

Record = dict[str, Any]


class World(NamedTuple):
    """Events in the order of their times, and the rules of their join."""

    shown: Sequence[Record]
    done: Sequence[Record]
    key: Key = "request_id"
    lateness: int = 0
    more: Mapping[str, Any] = MappingProxyType({})


def counted(
    world: World,
    logs: Sequence[Sequence[Record]],
    partitions: int = 1,
    listener: Listener | None = None,
) -> Ingest:
    """The join of logs in the order of arrival, divided by the key."""
    options = AttributionOptions(
        impressions=TOPICS[0],
        key=world.key,
        request_id="request_id",
        window="30s",
        lateness=f"{world.lateness}s",
        interactions=[InteractionOptions(source=TOPICS[1], event_id="event_id", gain="gain")],
        **world.more,
    )
    config = Config(
        metrics=METRICS,
        labels=["variant"],
        source=FilesOptions(paths=[*TOPICS]),
        event=EventFields(time="ts", time_unit="ms"),
        attribution=options,
    )
    ingest = new_ingest(config)
    name = "request_id" if world.key == "request_id" else "user"
    for number in range(partitions):
        members = [Partition(topic, number) for topic in TOPICS]
        ingest.begin(members[0], dict.fromkeys(members, 0))
        _joined_state(ingest, members[0]).joiner.listener = listener
        for member, log in zip(members, logs, strict=True):
            part = [line for line in log if crc32(line[name].encode()) % partitions == number]
            values = [json.dumps(record).encode() for record in part]
            # Each has a vote: few users would give the logs no clock.
            keys = [b"%d" % offset for offset in range(len(part))]
            ingest.apply(batch_of(member, values, keys=keys))
        ingest.end(members)
    return ingest


def counts(ingest: Ingest) -> bytes:
    """The bytes of the counts of all partitions."""
    (family,) = lifetimes_of(ingest, ["variant"])
    order = sorted(family.labels, key=family.labels.__getitem__)
    return b"".join(family.table.dump(order))


def outcomes(ingest: Ingest) -> list[OutcomeCounts]:
    whole = [OutcomeCounts() for _ in TOPICS]
    for partition in ingest.partitions:
        parts = _joined_state(ingest, partition).outcomes
        whole = [one.plus(other) for one, other in zip(whole, parts, strict=True)]
    return whole


def _joined_state(ingest: Ingest, partition: Partition) -> JoinedState:
    state = ingest.partitions[partition]
    assert isinstance(state, JoinedState)
    return state


@pytest.mark.parametrize("key", ["request_id", "user_item"])
def test_ids_numbered_for_each_user_count_with_any_number_of_partitions(key: Key) -> None:
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
    found = [counted(world, (shown, done), partitions) for partitions in (1, 2, 4, 16)]
    for ingest in found:
        assert [(of.counted, of.duplicate) for of in outcomes(ingest)] == [(200, 0)] * 2
    assert len(set(map(counts, found))) == 1


@pytest.mark.parametrize("seed", range(200 if thorough() else 8))
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


def content(ingest: Ingest) -> dict[str, bytes]:
    """The state but for the clocks and open records of logs, which know their order."""
    (partition,) = ingest.partitions
    sections = content_of(ingest.sections(partition))
    return {name: data for name, data in sections.items() if name.startswith("labels/")}


def world_of(seed: int) -> World:
    """Lists and interactions with copies, some changed, re-used ids, and equal times."""
    random = Random(seed)
    key: Key = random.choice(["request_id", "user_item"])
    shown: list[Record] = [
        {
            # Whole seconds: some are equal, and some on the edges of windows.
            "ts": START + SECOND * random.randrange(120),
            "request_id": f"r{number if random.random() < 0.9 else random.randrange(number + 1)}",
            "user": f"u{random.randrange(4)}",
            "variant": random.choice("xy"),
            "recommendations": random.sample(ITEMS, random.randint(0, 4)),
        }
        for number in range(60)
    ]
    done: list[Record] = [
        {
            "ts": of["ts"] + SECOND * random.choice([0, 1, 5, 29, 30, 31]),
            "request_id": of["request_id"],
            "user": of["user"],
            "item": random.choice([*of["recommendations"], *ITEMS[:2]]),
            "type": random.choice(["click", "cart"]),
            "gain": random.choice([1.0, 0.5, -2.0]),
            "event_id": f"e{random.randrange(12)}",
        }
        for of in random.choices(shown, k=100)
    ]
    for records, changed in ((shown, "variant"), (done, "gain")):
        values = [record[changed] for record in records]
        records += [
            {**record, "ts": record["ts"] + random.choice([0, 1, 20, 31]) * SECOND}
            | {changed: random.choice(values)}
            for record in random.sample(records, 20)
        ]
    more: dict[str, Any] = {"combine": random.choice(["max", "sum"])}
    if key == "user_item" and random.random() < 0.5:
        more["per"] = ["variant"]
    return World(shown, done, key, lateness=random.choice([0, 7, 30]), more=more)


def arrived(random: Random, world: World, late: float = 0) -> list[list[Record]]:
    """Both logs as records arrive: none of them is late, but for a share."""

    def arrival(record: Record) -> tuple[float, float]:
        delay = random.uniform(0, SECOND * world.lateness)
        if random.random() < late:
            delay += (60 + world.lateness) * SECOND
        return record["ts"] + delay, random.random()

    return [sorted(log, key=arrival) for log in (world.shown, world.done)]


class Refused:
    """The records that a log refuses by their time: number of the log and offset."""

    def __init__(self) -> None:
        self.found: set[tuple[int, int]] = set()

    def rejected(self, outcome: Outcome, records: OpenRecords, row: int) -> None:
        """See `Listener`."""
        if outcome in ("late", "future"):
            self.found.add((int(records.logs[row]), int(records.offsets[row])))

    def counted(self, lists: OpenLists, row: int, interactions: Sequence[int]) -> None:
        """See `Listener`."""


@pytest.mark.parametrize("seed", range(200 if thorough() else 8))
def test_the_tables_of_the_same_records_are_counted_to_the_same_bytes(seed: int) -> None:
    world, refused = world_of(seed), Refused()
    logs = arrived(Random(seed), world, late=0.1)
    daemon = counted(world, logs, listener=refused)
    shown, done = (
        pa.Table.from_pylist(
            [
                {**record, "times": 1_000 * record["ts"], "users": record["user"]}
                for offset, record in enumerate(log)
                if (number, offset) not in refused.found
            ]
        ).drop_columns(["ts", "user"])
        for number, log in enumerate(logs)
    )
    rule = Attribution(key=world.key, window="30s", lateness=f"{world.lateness}s", **world.more)
    tables = joined(shown, done, rule)
    of_log = outcomes(daemon)
    for live, table in zip(of_log, tables.counts, strict=True):
        rest = {"late": 0, "future": 0, "records": table.records}
        assert msgspec.structs.replace(live, **rest) == table
    assert sum(of.late for of in of_log) == len(refused.found) > 0
    (family,) = lifetimes_of(daemon, ["variant"])
    states = {}
    for cell, labels in family.labels.items():
        live_counts = Accumulator(*METRICS)
        live_counts.adopt(b"".join(family.table.dump([cell])))
        states[labels] = live_counts.state_dict()
    cells = merged(partials([tables.lists], *METRICS, by=["variant"]))
    assert {cell.labels: of.state_dict() for cell, of in cells.items()} == states


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
