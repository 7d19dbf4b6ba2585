"""Snapshots built by hand, and a parser of expositions."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from streameval.catalogue import parse
from streameval.catalogue.reading import Reading, UndefinedReading
from streameval.decoding.invalid import REASONS
from streameval.engine.snapshot import (
    LIFETIME,
    CheckpointHealth,
    CounterKey,
    CounterValue,
    Health,
    PartitionHealth,
    Series,
    SeriesFamily,
    Snapshot,
    WebConfigHealth,
)
from streameval.exporters.prometheus import PrometheusExporter
from tests.exposition import Samples, samples_of

STARTED = 1_760_000_000.0


def mean(text: str, labels: tuple[str, ...], total: float, count: int) -> Series:
    """A metric that is a mean; undefined where the count is 0."""
    value = total / count if count else float("nan")
    reading = Reading(metric=text, value=value, count=count, lists=count, total=total)
    return Series(parse(text), labels, reading)


def property_of_all(
    text: str, labels: tuple[str, ...], value: float, lists: int = 10, **more: Any
) -> Series:
    """A property of all lists, such as coverage."""
    reading = Reading(metric=text, value=value, count=lists, lists=lists, **more)
    return Series(parse(text), labels, reading)


def health(
    *,
    consumed: int = 0,
    invalid: Mapping[str, int] | None = None,
    partitions: tuple[PartitionHealth, ...] = (),
    ready: bool = True,
    trouble: str | None = None,
    **more: Any,
) -> Health:
    """The pipeline's counts; every reason at 0 unless given."""
    reasons = dict.fromkeys(map(str, REASONS), 0) | dict(invalid or {})
    valid = consumed - sum(reasons.values())
    return Health(
        consumed=consumed,
        valid=valid,
        invalid=reasons,
        tombstones=0,
        partitions=partitions,
        ready=ready,
        trouble=trouble,
        **more,
    )


def busy_health() -> Health:
    """A health with every field set."""
    parts = (partition(0, 5, 9, 1.5, durable=3), partition(1, 3, 3, 2.0, durable=3, ahead=90.0))
    failures = {"store": 1, "dead_letters": 1, "timeout": 0}
    checkpoint_health = CheckpointHealth(
        last_success=STARTED + 9, failures=failures, commit_failures=5, skipped=8
    )
    return health(
        consumed=9,
        partitions=parts,
        late=4,
        future=6,
        clock_jumps=1,
        duplicates=2,
        folded={"labels": 7, "country": 0},
        dead_lettered=3,
        recoveries={"seek": 2, "rejoin": 1},
        connection_failures={"authentication": 4, "certificate": 0},
        folded_compared=("variant",),
        unmatched={"labels.varient": "No record has it."},
        unknown_items={"genre": 0.125},
        checkpoint=checkpoint_health,
        web_config=WebConfigHealth(successful=False, at=STARTED + 8),
    )


def windowed(entry: Series, window: str, family: int = 0) -> Series:
    """The same reading in a window, or of a segment."""
    return msgspec.structs.replace(entry, window=window, family=family)


def refused_value(text: str, labels: tuple[str, ...]) -> Series:
    """A value that a convention leaves undefined."""
    reading = UndefinedReading(
        metric=text, value=math.nan, count=3, lists=4, problem="it raises an error on 2 lists"
    )
    return Series(parse(text), labels, reading)


def picture(
    *series: Series,
    version: int = 1,
    label_names: Iterable[str] = ("variant",),
    segments: Iterable[str] = (),
    windows: Iterable[str] = (),
    state: Health | None = None,
    counted: Mapping[CounterKey, CounterValue] | None = None,
) -> Snapshot:
    return Snapshot(
        version=version,
        taken_at=STARTED + version,
        started_at=STARTED,
        source="recommendation-events",
        families=tuple(
            SeriesFamily(
                segment or "labels",
                segment,
                (*label_names, *([segment] if segment else [])),
                (*windows, LIFETIME),
            )
            for segment in (None, *segments)
        ),
        series=series,
        health=health() if state is None else state,
        counted=counted,
    )


def partition(
    number: int,
    position: int,
    end: int | None,
    event_time: float | None = None,
    *,
    durable: int | None = None,
    ahead: float = 0.0,
) -> PartitionHealth:
    return PartitionHealth(
        topic="recommendation-events",
        partition=number,
        position=position,
        end=end,
        lag=None if end is None else end - position,
        durable=durable,
        event_time=event_time,
        ahead=ahead,
    )


class ManualClock:
    """A manual clock."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def charts(html: str) -> list[dict[str, Any]]:
    """The data of every chart in a page."""
    texts = re.findall(r'<script type="application/json">(.*?)</script>', html)
    return [json.loads(text) for text in texts]


def samples(exporter: PrometheusExporter, snapshot: Snapshot | None) -> Samples:
    """Every sample of a scrape."""
    return samples_of(exporter.exposition(snapshot).decode())
