"""The pipeline's own counts on the page."""

from __future__ import annotations

from typing import Final

from streameval.engine.snapshot import (
    CheckpointHealth,
    Health,
    PartitionHealth,
    Snapshot,
)
from streameval.exporters.page.markup import Markup, grid, plain_grid, tag
from streameval.exporters.view import UNDEFINED, moment, span
from streameval.inference.table import TextColumn, TextTable
from streameval.inference.words import percent

_DAY: Final = 86_400.0


def pipeline(snapshot: Snapshot | None) -> Markup:
    """Counts since the start, invalid records by reason, and the progress of each partition."""
    if snapshot is None:
        return tag("div", tag("p", "No data has been read yet."), id="health")
    health = snapshot.health
    return tag("div", _totals(snapshot), _invalid(health), _partitions(health), id="health")


def _totals(snapshot: Snapshot) -> Markup:
    health = snapshot.health
    invalid = sum(health.invalid.values())
    totals = {
        "records read": health.consumed,
        "events": health.valid,
        "invalid": invalid,
        "deletions (no value)": health.tombstones,
        "too late for a window": health.late,
        "dated in the future": health.future,
        "duplicates": health.duplicates,
        "dead letters": health.dead_lettered,
    }
    lags = [entry.lag for entry in health.partitions if entry.lag is not None]
    if lags:
        totals["records behind"] = sum(lags)
    if health.join is not None:
        totals["lists not counted yet"] = health.join.open_lists
    texts = {name: _number(n) for name, n in totals.items() if n is not None}
    if invalid and health.consumed:
        texts["invalid"] += f" ({percent(invalid / health.consumed)})"
    times = [
        partition.event_time for partition in health.partitions if partition.event_time is not None
    ]
    if times:
        texts["newest event"] = _when(max(times) / 1_000_000, snapshot.taken_at)
    if health.checkpoint is not None:
        saved = health.checkpoint.last_success
        texts["last checkpoint"] = UNDEFINED if saved is None else _when(saved, snapshot.taken_at)
    parts = [tag("div", tag("dt", name), tag("dd", text)) for name, text in texts.items()]
    return tag("dl", *parts, kind="totals")


def _when(seconds: float, now: float) -> str:
    """An age for live data; a date for old events."""
    age = now - seconds
    return f"{span(age)} ago" if age < _DAY else moment(seconds)


def _invalid(health: Health) -> Markup:
    reasons = {reason: count for reason, count in sorted(health.invalid.items()) if count}
    if not reasons:
        return Markup()
    columns: list[TextColumn[tuple[str, int]]] = [
        TextColumn("reason", lambda row: tag("code", row[0])),
        TextColumn("records", lambda row: _number(row[1]), "right"),
    ]
    return plain_grid("Invalid records by reason", TextTable(columns, list(reasons.items())))


def _partitions(health: Health) -> Markup:
    if not health.partitions:
        return Markup()
    saved = health.checkpoint
    names = ["next offset", "records behind", "event time", *(["saved up to"] if saved else [])]
    rows = [_partition(entry, saved) for entry in health.partitions]
    columns = {"partition": ""} | dict.fromkeys(names, "number")
    return grid("Partitions", columns, rows, kind="rows forest")


def _partition(entry: PartitionHealth, saved: CheckpointHealth | None) -> Markup:
    when, ahead = entry.event_time, " (ahead of this machine)" if entry.ahead else ""
    cells = {
        "next offset": _number(entry.position),
        "records behind": _known(entry.lag),
        "event time": UNDEFINED if when is None else moment(when / 1_000_000) + ahead,
    }
    if saved is not None:
        cells["saved up to"] = _known(saved.offsets.get(entry.partition))
    return tag(
        "tr",
        tag("th", str(entry.partition), scope="row"),
        *(tag("td", text, data_head=name) for name, text in cells.items()),
    )


def _known(count: int | None) -> str:
    return UNDEFINED if count is None else _number(count)


def _number(count: int) -> str:
    return f"{count:,}"
