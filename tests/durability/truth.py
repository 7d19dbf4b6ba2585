"""The expected state: a fold of the log by a process without faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from streameval.engine.ingest import Ingest
from streameval.events.records import Partition, RecordBatch
from tests.durability.counting import MINUTE, TIMES, digests, ingest
from tests.logs.group import Entry, Log


class Fold(NamedTuple):
    """A partition's log up to an offset.

    Attributes:
        hits: sum of the metric, by label value before folding.
        events: valid events, by label value before folding.
        kept: events whose panes are kept at the end.
        records: number of records.
    """

    hits: Mapping[str, int]
    events: Mapping[str, int]
    kept: int
    records: int


class Truth:
    """Folds a log, and caches the results."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._folds: dict[tuple[Partition, int], Fold] = {}
        self._pieces: dict[tuple[Partition, int], Mapping[str, str]] = {}
        self._reached: dict[Partition, Ingest] = {}

    def fold(self, partition: Partition, offset: int) -> Fold:
        key = partition, offset
        if key not in self._folds:
            self._folds[key] = _fold([entry.value for entry in self._below(partition, offset)])
        return self._folds[key]

    def bad(self, partition: Partition, offset: int) -> set[int]:
        return {e.offset for e in self._below(partition, offset) if _is_bad(e.value)}

    def pieces(self, partition: Partition, offset: int) -> Mapping[str, str]:
        key = partition, offset
        if key not in self._pieces:
            reached = self._reached.get(partition)
            if reached is None or reached.positions[partition] > offset:
                reached = self._reached[partition] = ingest()
                reached.begin(partition, {partition: 0})
            self._go_on(reached, partition, offset)
            self._pieces[key] = digests(reached, partition)
        return self._pieces[key]

    def _go_on(self, reached: Ingest, partition: Partition, offset: int) -> None:
        start = reached.positions[partition]
        entries = [each for each in self._below(partition, offset) if each.offset >= start]
        reached.apply(
            RecordBatch(
                partition=partition,
                values=[entry.value for entry in entries],
                offsets=[entry.offset for entry in entries],
                next_offset=offset,
                timestamps=[entry.timestamp for entry in entries],
            )
        )

    def _below(self, partition: Partition, offset: int) -> list[Entry]:
        return [each for each in self._log.entries(partition) if each.offset < offset]


def _is_bad(value: bytes | None) -> bool:
    return value is not None and not value.startswith(b"{")


class _Event(msgspec.Struct):
    id: str
    ts: int
    variant: str
    interactions: list[str]


def _fold(values: list[bytes | None]) -> Fold:
    """A fold by definition, record by record, without the package."""
    events = [msgspec.json.decode(v, type=_Event) for v in values if v and not _is_bad(v)]
    clock = max((event.ts for event in events), default=0) * 1_000_000
    first = {event.id: event for event in reversed(events)}.values()
    hits, counts = Counter[str](), Counter[str]()
    for event in first:
        hits[event.variant] += event.interactions == ["a"]
        counts[event.variant] += 1
    border = (clock - TIMES.kept) // MINUTE * MINUTE
    kept = sum(event.ts * 1_000_000 >= border for event in first)
    return Fold(hits, counts, kept, len(values))
