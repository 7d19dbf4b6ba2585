"""Snapshots built by hand, for everything that shows one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from streameval.catalogue import parse
from streameval.pipeline.invalid import REASONS
from streameval.pipeline.snapshot import Health, PartitionHealth, Series, SeriesFamily, Snapshot
from streameval.reading import Reading
from streameval.records import Partition

STARTED = 1_760_000_000.0


def mean(text: str, labels: tuple[str, ...], total: float, count: int) -> Series:
    """A metric that is a mean; undefined where the count is 0."""
    value = total / count if count else float("nan")
    reading = Reading(metric=text, value=value, count=count, lists=count, total=total)
    return Series(parse(text), labels, reading)


def property_of_all(text: str, labels: tuple[str, ...], value: float, lists: int = 10) -> Series:
    """A metric that does not add up, such as coverage."""
    return Series(parse(text), labels, Reading(metric=text, value=value, count=lists, lists=lists))


def health(
    *,
    consumed: int = 0,
    invalid: Mapping[str, int] | None = None,
    partitions: tuple[PartitionHealth, ...] = (),
    ready: bool = True,
    trouble: str | None = None,
) -> Health:
    """The pipeline's counts, every reason at 0 unless said otherwise."""
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
    )


def picture(
    *series: Series,
    version: int = 1,
    label_names: Iterable[str] = ("variant",),
    state: Health | None = None,
) -> Snapshot:
    """One snapshot of the given series."""
    return Snapshot(
        version=version,
        taken_at=STARTED + version,
        started_at=STARTED,
        source="recommendation-events",
        families=(SeriesFamily("labels", None, tuple(label_names)),),
        series=series,
        health=health() if state is None else state,
    )


def partition(
    number: int, position: int, end: int | None, event_time: int | None = None
) -> PartitionHealth:
    """How far one partition of a topic has been read."""
    where = Partition("recommendation-events", number)
    return PartitionHealth(partition=where, position=position, end=end, event_time=event_time)
