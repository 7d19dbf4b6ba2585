"""The pipeline's own counts on the page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from streameval.engine.snapshot import PartitionHealth, Snapshot
from streameval.exporters.view import UNDEFINED, moment, span
from streameval.inference.table import TextColumn, TextTable
from streameval.inference.words import percent

_DAY: Final = 86_400.0


def totals(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """Name and text of each count."""
    health, now = snapshot.health, snapshot.taken_at
    invalid = sum(health.invalid.values())
    share = f" ({percent(invalid / health.consumed)})" if invalid and health.consumed else ""
    lags = [entry.lag for entry in health.partitions if entry.lag is not None]
    counts = {
        "records read": health.consumed,
        "events": health.valid,
        "invalid": invalid,
        "deletions (no value)": health.tombstones,
        "too late for a window": health.late,
        "dated in the future": health.future,
        "duplicates": health.duplicates,
        "dead letters": health.dead_lettered,
        "records behind": sum(lags) if lags else None,
        "lists not counted yet": None if health.join is None else health.join.open_lists,
    }
    for name, count in counts.items():
        if count is not None:
            yield name, f"{count:,}{share if name == 'invalid' else ''}"
    times = [entry.event_time for entry in health.partitions if entry.event_time is not None]
    if times:
        yield "newest event", _when(max(times), now)
    if health.checkpoint is not None:
        saved = health.checkpoint.last_success
        yield "last checkpoint", UNDEFINED if saved is None else _when(saved, now)


def tables(snapshot: Snapshot) -> Iterator[TextTable[Any]]:
    """Invalid records by reason, and the progress of each partition."""
    health = snapshot.health
    reasons: list[TextColumn[tuple[str, int]]] = [
        TextColumn("reason", lambda row: row[0]),
        TextColumn("records", lambda row: f"{row[1]:,}", "right"),
    ]
    invalid = [(reason, count) for reason, count in sorted(health.invalid.items()) if count]
    yield TextTable(reasons, invalid, "Invalid records by reason")
    yield TextTable(_progress(saved=health.checkpoint is not None), health.partitions, "Partitions")


def _progress(*, saved: bool) -> list[TextColumn[PartitionHealth]]:
    columns: list[TextColumn[PartitionHealth]] = [
        TextColumn("partition", lambda entry: str(entry.log)),
        TextColumn("next offset", lambda entry: f"{entry.position:,}", "right"),
        TextColumn("records behind", lambda entry: _count(entry.lag), "right"),
        TextColumn("event time", _event_time, "right"),
    ]
    if saved:
        columns.append(TextColumn("saved up to", lambda entry: _count(entry.durable), "right"))
    return columns


def _event_time(entry: PartitionHealth) -> str:
    if entry.event_time is None:
        return UNDEFINED
    ahead = " (ahead of this machine)" if entry.ahead else ""
    return moment(entry.event_time) + ahead


def _count(count: int | None) -> str:
    return UNDEFINED if count is None else f"{count:,}"


def _when(seconds: float, now: float) -> str:
    """An age for live data; a date for old events."""
    age = now - seconds
    return f"{span(age)} ago" if age < _DAY else moment(seconds)
