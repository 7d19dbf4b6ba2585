"""How the pipeline is: what was read, what was refused, how far behind it is."""

from __future__ import annotations

from streameval.exporters.figures import UNDEFINED, moment, span
from streameval.exporters.web.markup import Markup, tag
from streameval.pipeline.snapshot import CheckpointHealth, Health, PartitionHealth, Snapshot


def pipeline(snapshot: Snapshot) -> Markup:
    """The pipeline section of the page."""
    health = snapshot.health
    return tag("", _totals(snapshot), _invalid(health), _partitions(health))


def _totals(snapshot: Snapshot) -> Markup:
    health = snapshot.health
    totals = {
        "records read": health.consumed,
        "events": health.valid,
        "invalid": sum(health.invalid.values()),
        "tombstones": health.tombstones,
        "late": health.late,
        "duplicates": health.duplicates,
        "dead letters": health.dead_lettered,
    }
    known = [entry.lag for entry in health.partitions if entry.lag is not None]
    if known:
        totals["records behind"] = sum(known)
    if health.join is not None:
        totals["lists not counted yet"] = health.join.open_lists
    texts = {name: _number(n) for name, n in totals.items() if n is not None}
    if health.checkpoint is not None:
        texts["last checkpoint"] = _age(health.checkpoint, snapshot.taken_at)
    parts = [tag("div", tag("dt", name), tag("dd", text)) for name, text in texts.items()]
    return tag("dl", *parts, kind="totals")


def _age(kept: CheckpointHealth, now: float) -> str:
    return UNDEFINED if kept.last_success is None else f"{span(now - kept.last_success)} ago"


def _invalid(health: Health) -> Markup:
    found = {reason: count for reason, count in sorted(health.invalid.items()) if count}
    if not found:
        return Markup()
    heads = [tag("th", "reason", scope="col"), tag("th", "records", scope="col", kind="number")]
    rows = [
        tag("tr", tag("th", tag("code", reason), scope="row"), tag("td", _number(count)))
        for reason, count in found.items()
    ]
    return _table("Invalid records by reason", heads, rows)


def _partitions(health: Health) -> Markup:
    if not health.partitions:
        return Markup()
    kept = health.checkpoint
    names = ["next offset", "records behind", "event time", *(["durable to"] if kept else [])]
    heads = [tag("th", name, scope="col", kind="number") for name in names]
    rows = [_partition(entry, kept) for entry in health.partitions]
    return _table("Partitions", [tag("th", "partition", scope="col"), *heads], rows)


def _partition(entry: PartitionHealth, kept: CheckpointHealth | None) -> Markup:
    when = entry.event_time
    durable = () if kept is None else (tag("td", _known(kept.offsets.get(entry.partition))),)
    return tag(
        "tr",
        tag("th", str(entry.partition), scope="row"),
        tag("td", _number(entry.position)),
        tag("td", _known(entry.lag)),
        tag("td", UNDEFINED if when is None else moment(when / 1_000_000)),
        *durable,
    )


def _known(count: int | None) -> str:
    return UNDEFINED if count is None else _number(count)


def _table(caption: str, heads: list[Markup], rows: list[Markup]) -> Markup:
    table = tag(
        "table",
        tag("caption", caption),
        tag("thead", tag("tr", *heads)),
        tag("tbody", *rows),
        kind="rows",
    )
    return tag("div", table, kind="card scroll", tabindex="0", role="region", aria_label=caption)


def _number(count: int) -> str:
    return f"{count:,}"
