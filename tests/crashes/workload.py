"""What simulated daemons count: events, or lists and clicks that they join."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from random import Random
from typing import Final, NamedTuple, Protocol

import msgspec

from streameval.checkpoints.format import Shard
from streameval.config import Config
from streameval.engine.ingest import Ingest
from streameval.events.records import Partition
from streameval.join.attribution import AttributionOptions, InteractionOptions
from streameval.join.frontend import JoinFrontend
from streameval.sources.settings import SimulatorOptions
from tests.crashes.fold import LATENESS, PANE, WINDOW, Entries, Fold, folded, joined
from tests.durability.process import FIELDS, METRIC, START, ingest, record

PARTITIONS: Final = 3
_OTHER: Final = {"bad": b"garbage", "list": b"[]", "tombstone": None}
_KINDS: Final = ("w", "x", "y", "z", "x", "y", "again", "gap", *_OTHER)
_MINUTES: Final = (0, 0, 1, 1, 3, -1, -3, -6)
_MINUTES_OF_JOINS: Final = (0, 0, 0, 0, 1, 1, -1, -3)

_CONFIG: Final = Config(
    metrics=[METRIC], source=SimulatorOptions(), labels=["variant"], segments=["country"]
)


class Produced(NamedTuple):
    """A record, or an offset without one."""

    log: Partition
    value: bytes | None
    is_gap: bool = False


class Workload(Protocol):
    """Logs, and how they are counted.

    Attributes:
        config: of the daemons.
        partitions: the logs of each partition.
        is_determined: whether the counts at some offsets depend on the records alone.
    """

    @property
    def config(self) -> Config: ...

    @property
    def partitions(self) -> Mapping[Partition, Sequence[Partition]]: ...

    @property
    def is_determined(self) -> bool: ...

    def ingest(self) -> Ingest:
        """An ingest that has counted nothing."""

    def shard(self, partition: Partition) -> Shard:
        """The shard of the checkpoints of a partition."""

    def fold(self, entries: Entries) -> Fold:
        """Count the records of a partition again."""

    def evidence(self, entries: Entries) -> Fold:
        """At most what counters may show of the records of a partition."""

    def produce(self, random: Random) -> Sequence[Produced]:
        """The next records."""

    def last(self) -> Sequence[Produced]:
        """Records after which all others are counted."""


class Events:
    """Topics of complete events, of which each partition is counted alone."""

    config = _CONFIG
    is_determined = True

    def __init__(self) -> None:
        logs = [Partition("events", number) for number in range(PARTITIONS)]
        self.partitions: Mapping[Partition, Sequence[Partition]] = {log: (log,) for log in logs}
        self._number = self._minute = 0
        self._written: list[bytes] = []

    def ingest(self) -> Ingest:
        return ingest()

    def shard(self, partition: Partition) -> Shard:
        return Shard(partition.topic, f"{partition.topic}-1", partition.number)

    def fold(self, entries: Entries) -> Fold:
        return folded(entries)

    def evidence(self, entries: Entries) -> Fold:
        return folded(entries)

    def produce(self, random: Random) -> Sequence[Produced]:
        log = random.choice([*self.partitions])
        return [
            self._record(log, random.choice(_KINDS), random.choice(_MINUTES), random)
            for _ in range(random.randint(1, 6))
        ]

    def last(self) -> Sequence[Produced]:
        return ()

    def _record(self, log: Partition, kind: str, minutes: int, random: Random) -> Produced:
        if kind in _OTHER or kind == "gap":
            return Produced(log, _OTHER.get(kind), is_gap=kind == "gap")
        if kind == "again" and self._written:
            return Produced(log, random.choice(self._written))
        self._number += 1
        self._minute += max(0, minutes)
        minute = max(0, self._minute + min(0, minutes))
        hit = self._number % 3 > 0
        value = record(self._number, minute=minute, variant=kind, hit=hit)
        self._written.append(value)
        return Produced(log, value)


class Joined:
    """Two topics, of lists and of clicks, whose partitions of one number are joined.

    `idle`: whether daemons stop waiting for a log without records, which no fold can repeat.
    """

    def __init__(self, *, idle: bool) -> None:
        self.is_determined = not idle
        self._options = AttributionOptions(
            impressions="lists",
            interactions=[
                InteractionOptions(source="clicks", event_id="event_id", types={"click": 1.0})
            ],
            window=f"{WINDOW}s",
            lateness=f"{LATENESS}s",
            idle_timeout="2s" if idle else None,
        )
        self.config = msgspec.structs.replace(_CONFIG, attribution=self._options)
        self.partitions: Mapping[Partition, Sequence[Partition]] = {
            Partition("lists", number): (Partition("lists", number), Partition("clicks", number))
            for number in range(PARTITIONS)
        }
        self._number = self._minute = 0
        self._written: dict[Partition, list[bytes]] = {}
        self._lists: dict[int, list[str]] = {}

    def ingest(self) -> Ingest:
        return Ingest(self.frontend(), keep_dead_letters=True)

    def frontend(self) -> JoinFrontend:
        """A frontend for an ingest."""
        event = msgspec.structs.replace(FIELDS, recommendations="shown", event_id=None)
        layout = msgspec.structs.replace(ingest().layout, dedup=None)
        return JoinFrontend(self._options, event, ["variant", "country"], layout)

    def shard(self, partition: Partition) -> Shard:
        return Shard("lists", "lists-1.clicks-1", partition.number)

    def fold(self, entries: Entries) -> Fold:
        return joined(entries)

    def evidence(self, entries: Entries) -> Fold:
        return joined(entries, is_over=not self.is_determined)

    def produce(self, random: Random) -> Sequence[Produced]:
        logs = random.choice([*self.partitions.values()])
        # Often one log leads for some time.
        log = random.choice(logs)
        return [
            self._record(log, random.choice(_KINDS), random.choice(_MINUTES_OF_JOINS), random)
            for _ in range(random.randint(1, 6))
        ]

    def last(self) -> Sequence[Produced]:
        self._minute += 1
        return [
            Produced(log, self.value(log, str(log), "x", self._minute))
            for logs in self.partitions.values()
            for log in logs
        ]

    def _record(self, log: Partition, kind: str, minutes: int, random: Random) -> Produced:
        if kind in _OTHER or kind == "gap":
            return Produced(log, _OTHER.get(kind), is_gap=kind == "gap")
        written = self._written.setdefault(log, [])
        if kind == "again" and written:
            return Produced(log, random.choice(written))
        self._minute += max(0, minutes)
        minute = max(0, self._minute + min(0, minutes))
        lists = self._lists.setdefault(log.number, [])
        if log.topic == "lists":
            lists.append(f"r{self._number}")
        request = lists[-1] if log.topic == "lists" else random.choice([*lists[-3:], "unknown"])
        written.append(self.value(log, request, kind, minute))
        return Produced(log, written[-1])

    def value(self, log: Partition, request: str, variant: str, minute: int) -> bytes:
        """A list, or a click on a list."""
        self._number += 1
        content = (
            {"shown": ["a"], "variant": variant, "country": "nl" if self._number % 2 else "de"}
            if log.topic == "lists"
            else {
                "item": "a" if self._number % 3 else "b",
                "type": "click",
                "event_id": str(self._number),
            }
        )
        time = (START + minute) * PANE
        return json.dumps({"ts": time, "request_id": request, "user": "u", **content}).encode()
