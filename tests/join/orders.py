"""Worlds of events, their logs in any order of arrival, and what a join of them counts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from random import Random
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from zlib import crc32

import msgspec
import pyarrow as pa

from streameval import Accumulator
from streameval.attribution import Attribution, JoinedTables, joined
from streameval.config.config import Config
from streameval.config.pipeline import new_ingest
from streameval.decoding.fields import EventFields
from streameval.engine.capture import lifetimes_of
from streameval.engine.ingest import Ingest
from streameval.events.records import Partition
from streameval.join.attribution import (
    AttributionKey,
    AttributionOptions,
    InteractionOptions,
    Outcome,
    OutcomeCounts,
)
from streameval.join.joiner import Listener
from streameval.join.open_records import OpenLists, OpenRecords
from streameval.join.state import JoinedState
from streameval.sources.settings import FilesOptions
from tests.batches import batch_of, content_of

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
    key: AttributionKey = "request_id"
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
    ingest, divided = new_ingest(config), [by_key(world, log, partitions) for log in logs]
    for number in range(partitions):
        members = [Partition(topic, number) for topic in TOPICS]
        ingest.begin(members[0], dict.fromkeys(members, 0))
        _joined_state(ingest, members[0]).joiner.listener = listener
        for member, parts in zip(members, divided, strict=True):
            values = parts[number]
            # Each has a vote: few users would give the logs no clock.
            keys = [b"%d" % offset for offset in range(len(values))]
            ingest.apply(batch_of(member, values, keys=keys))
        ingest.end(members)
    return ingest


def by_key(world: World, log: Sequence[Record], partitions: int) -> dict[int, list[bytes]]:
    """The records of each partition of a log, in their order."""
    name = "request_id" if world.key == "request_id" else "user"
    divided: dict[int, list[bytes]] = {number: [] for number in range(partitions)}
    for line in log:
        divided[crc32(line[name].encode()) % partitions].append(json.dumps(line).encode())
    return divided


def counts(ingest: Ingest) -> bytes:
    """The bytes of the counts of all partitions."""
    (family,) = lifetimes_of(ingest, ["variant"])
    order = sorted(family.labels, key=family.labels.__getitem__)
    return b"".join(family.table.dump(order))


def outcomes(ingest: Ingest) -> list[OutcomeCounts]:
    total = [OutcomeCounts() for _ in TOPICS]
    for partition in ingest.partitions:
        parts = _joined_state(ingest, partition).outcomes
        total = [one.plus(other) for one, other in zip(total, parts, strict=True)]
    return total


def undelayed(ingest: Ingest) -> list[OutcomeCounts]:
    """The outcomes of the records that are neither late nor from the future."""
    return [
        msgspec.structs.replace(of, late=0, future=0, records=of.records - of.late - of.future)
        for of in outcomes(ingest)
    ]


def states(ingest: Ingest) -> dict[tuple[str, ...], Mapping[str, Any]]:
    """The counts of each slice of all partitions, by its labels."""
    (family,) = lifetimes_of(ingest, ["variant"])
    result: dict[tuple[str, ...], Mapping[str, Any]] = {}
    for cell, labels in family.labels.items():
        counts_of_cell = Accumulator(*METRICS)
        counts_of_cell.adopt(b"".join(family.table.dump([cell])))
        result[labels] = counts_of_cell.state_dict()
    return result


def joined_tables(world: World, logs: Sequence[Sequence[Record]]) -> JoinedTables:
    """The join of the same records as tables."""
    shown, done = (
        pa.Table.from_pylist(
            [{**line, "times": 1_000 * line["ts"], "users": line["user"]} for line in log]
        ).drop_columns(["ts", "user"])
        for log in logs
    )
    rule = Attribution(key=world.key, window="30s", lateness=f"{world.lateness}s", **world.more)
    return joined(shown, done, rule)


def _joined_state(ingest: Ingest, partition: Partition) -> JoinedState:
    state = ingest.partitions[partition]
    assert isinstance(state, JoinedState)
    return state


def content(ingest: Ingest) -> dict[str, bytes]:
    """The state but for the clocks and open records of logs, which know their order."""
    (partition,) = ingest.partitions
    sections = content_of(ingest.sections(partition))
    return {name: data for name, data in sections.items() if name.startswith("labels/")}


def world_of(seed: int, lists: int = 60, users: int = 4) -> World:
    """Lists and interactions with copies, some changed, re-used ids, and equal times."""
    random = Random(seed)
    key: AttributionKey = random.choice(["request_id", "user_item"])
    impressions: list[Record] = [
        {
            # Whole seconds: some are equal, and some on the edges of windows.
            "ts": START + SECOND * random.randrange(120),
            "request_id": f"r{number if random.random() < 0.9 else random.randrange(number + 1)}",
            "user": f"u{random.randrange(users)}",
            "variant": random.choice("xy"),
            "recommendations": random.sample(ITEMS, random.randint(0, 4)),
        }
        for number in range(lists)
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
        for of in random.choices(impressions, k=2 * lists)
    ]
    for records, changed in ((impressions, "variant"), (done, "gain")):
        values = [record[changed] for record in records]
        records += [
            {**record, "ts": record["ts"] + random.choice([0, 1, 20, 31]) * SECOND}
            | {changed: random.choice(values)}
            for record in random.sample(records, lists // 3)
        ]
    more: dict[str, Any] = {"combine": random.choice(["max", "sum"])}
    if key == "user_item" and random.random() < 0.5:
        more["per"] = ["variant"]
    return World(impressions, done, key, lateness=random.choice([0, 7, 30]), more=more)


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
