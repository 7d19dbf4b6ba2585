"""The logs counted again by definition, record by record, without the engine."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from hashlib import blake2b
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from streameval.engine.dead_letters import Identity
from streameval.events.records import Partition
from tests.engine import slow_clock
from tests.join import offline
from tests.logs.group import Entry, Log

SECOND: Final = 1_000_000
PANE: Final = 60
SPAN, LATENESS = 3 * PANE, PANE
CAP: Final = 2
"""Values of a variant with series of their own."""

Means = Mapping[tuple[str, str, str], tuple[int, int]]
"""Dimension, its value, window -> hits and lists."""


class Counted(NamedTuple):
    """An event that counts.

    Attributes:
        time: seconds.
        is_late: whether its pane was no longer kept when it came.
    """

    time: int
    variant: str
    country: str
    hit: bool
    is_late: bool


class Fold(NamedTuple):
    """The records of one partition below an offset of each log.

    Attributes:
        clock: the newest event time, seconds; None without events.
        bad: the invalid records.
        duplicates: records that repeat others; None if that is not known yet of all.
    """

    events: Sequence[Counted]
    clock: int | None
    records: int
    bad: frozenset[Identity]
    tombstones: int
    duplicates: int | None

    @property
    def late(self) -> int:
        return sum(event.is_late for event in self.events)

    def evidence(self) -> tuple[Counter[str], Counter[str]]:
        """Hits and lists of each variant, before any is folded."""
        hits = Counter(event.variant for event in self.events if event.hit)
        return hits, Counter(event.variant for event in self.events)


Entries: TypeAlias = Mapping[Partition, Sequence[Entry]]
"""The records of each log of a partition."""


def folded(entries: Entries) -> Fold:
    """Count events in the order of their log."""
    events: list[Counted] = []
    seen: set[str] = set()
    bad: set[Identity] = set()
    clock: int | None = None
    records = tombstones = duplicates = 0
    for log, entry in _records(entries):
        records += 1
        if entry.value is None:
            tombstones += 1
            continue
        event = _event(entry.value)
        if event is None:
            bad.add(Identity(log, entry.offset))
            continue
        # A duplicate is an event of its log, too, and moves its clock.
        time: int = event["ts"]
        clock = time if clock is None else max(clock, time)
        if event["id"] in seen:
            duplicates += 1
            continue
        seen.add(event["id"])
        is_late = time < (clock - SPAN - LATENESS) // PANE * PANE
        hit = event["interactions"] == event["recommendations"]
        events.append(Counted(time, event["variant"], event["country"], hit, is_late))
    return Fold(events, clock, records, frozenset(bad), tombstones, duplicates)


WINDOW: Final = 2 * PANE
"""Of a join, whose lateness is that of the panes."""


def joined(entries: Entries, *, is_over: bool = False) -> Fold:
    """Join lists with their clicks, and count those of which the window has ended.

    `is_over`: whether all windows have ended.
    """
    streams: list[list[offline.Log]] = []
    bad, tombstones, reached = set[Identity](), 0, list[int]()
    for log, records in entries.items():
        content = [None if entry.value is None else _event(entry.value) or {} for entry in records]
        bad |= {
            Identity(log, entry.offset)
            for entry, record in zip(records, content, strict=True)
            if record == {}
        }
        tombstones += content.count(None)
        times = [record["ts"] for record in content if record]
        reached.append(max(times, default=slow_clock.NEVER))
        streams.append([[_labelled(record) for record in content]])
    case = offline.Case(streams, window=WINDOW, lateness=LATENESS)
    end = min(reached) - LATENESS - WINDOW
    events = [
        Counted(time, variant, country, hit=dict(gains).keys() >= {*shown}, is_late=False)
        for time, ((variant, country),), shown, gains, _ in offline.joined(case).events
        if is_over or time < end
    ]
    clock = max((event.time for event in events), default=None)
    return Fold(
        events, clock, sum(map(len, entries.values())), frozenset(bad), tombstones, duplicates=None
    )


def _labelled(record: offline.Record | None) -> offline.Record | None:
    """A list with both of its labels as one."""
    if not record or "shown" not in record:
        return record
    return {**record, "variant": (record["variant"], record["country"])}


def _records(entries: Entries) -> Iterable[tuple[Partition, Entry]]:
    return ((log, entry) for log, records in entries.items() for entry in records)


@cache
def _event(value: bytes) -> dict[str, Any] | None:
    try:
        event = json.loads(value)
    except ValueError:
        return None
    return event if isinstance(event, dict) else None


class Truth:
    """Folds of logs, each made once.

    `partitions`: the logs of each partition. `fold`: counts their records.
    """

    def __init__(
        self,
        log: Log,
        partitions: Mapping[Partition, Sequence[Partition]],
        fold: Callable[[Entries], Fold],
    ) -> None:
        self._log, self._partitions, self._fold = log, partitions, fold
        self._folds: dict[tuple[tuple[Partition, int], ...], Fold] = {}

    def fold(self, partition: Partition, offsets: Mapping[Partition, int]) -> Fold:
        """The records of a partition below an offset of each of its logs."""
        below = {log: offsets.get(log, 0) for log in self._partitions[partition]}
        key = (*below.items(),)
        if key not in self._folds:
            self._folds[key] = self._fold(
                {
                    log: [entry for entry in self._log.entries(log) if entry.offset < offset]
                    for log, offset in below.items()
                }
            )
        return self._folds[key]

    def means(self, offsets: Mapping[Partition, int]) -> Means:
        """What a process shows that has counted logs up to these offsets."""
        folds = [
            self.fold(partition, offsets)
            for partition, logs in self._partitions.items()
            if offsets.keys() & {*logs}
        ]
        events = [event for fold in folds for event in fold.events]
        retained = sorted({event.variant for event in events}, key=_hash)[:CAP]
        means: dict[tuple[str, str, str], tuple[int, int]] = {}

        def add(key: tuple[str, str, str], event: Counted) -> None:
            hits, lists = means.get(key, (0, 0))
            means[key] = hits + event.hit, lists + 1

        clock = max((fold.clock for fold in folds if fold.clock is not None), default=0)
        start = (clock - SPAN) // PANE * PANE
        for event in events:
            variant = event.variant if event.variant in retained else "__other__"
            add(("country", event.country, "lifetime"), event)
            add(("variant", variant, "lifetime"), event)
            if not event.is_late and event.time // PANE * PANE >= start:
                add(("variant", variant, "3m"), event)
        return means


def _hash(value: str) -> bytes:
    return blake2b(msgspec.msgpack.encode(value), digest_size=8).digest()
