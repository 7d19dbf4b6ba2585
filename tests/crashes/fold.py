"""The log counted again by definition, record by record, without the engine."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import msgspec

from streameval.events.records import Partition
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
    """The records of one partition below an offset.

    Attributes:
        clock: the newest event time, seconds; None without events.
        bad: offsets of the invalid records.
    """

    events: Sequence[Counted]
    clock: int | None
    records: int
    bad: frozenset[int]
    tombstones: int
    duplicates: int

    @property
    def late(self) -> int:
        return sum(event.is_late for event in self.events)

    def evidence(self) -> tuple[Counter[str], Counter[str]]:
        """Hits and lists of each variant, before any is folded."""
        hits = Counter(event.variant for event in self.events if event.hit)
        return hits, Counter(event.variant for event in self.events)


def folded(entries: Iterable[Entry]) -> Fold:
    """Count records in the order of their log."""
    events: list[Counted] = []
    seen: set[str] = set()
    bad: set[int] = set()
    clock: int | None = None
    records = tombstones = duplicates = 0
    for entry in entries:
        records += 1
        if entry.value is None:
            tombstones += 1
            continue
        event = _event(entry.value)
        if event is None:
            bad.add(entry.offset)
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


@cache
def _event(value: bytes) -> dict[str, Any] | None:
    try:
        event = json.loads(value)
    except ValueError:
        return None
    return event if isinstance(event, dict) else None


class Truth:
    """Folds of a log, each made once."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._folds: dict[tuple[Partition, int], Fold] = {}

    def fold(self, partition: Partition, offset: int) -> Fold:
        key = partition, offset
        if key not in self._folds:
            entries = self._log.entries(partition)
            self._folds[key] = folded(entry for entry in entries if entry.offset < offset)
        return self._folds[key]

    def means(self, positions: Mapping[Partition, int]) -> Means:
        """What a process shows that has counted partitions up to these offsets."""
        folds = [self.fold(*position) for position in sorted(positions.items())]
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
