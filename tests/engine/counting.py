"""Small pipelines, and batches for them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec

from streameval.accumulator import Accumulator
from streameval.decoding.decode import Decoder
from streameval.decoding.fields import EventFields
from streameval.engine.capture import RuntimeStatus, SnapshotCapture
from streameval.engine.ingest import EventFrontend, Ingest
from streameval.engine.partition import Layout
from streameval.engine.snapshot import Health, Snapshot
from streameval.engine.windows.family import FamilySpec
from streameval.engine.windows.times import Windowing
from streameval.engine.windows.views import FamilyView
from streameval.events.records import Partition, RecordBatch
from tests.batches import batch_of, content_of

METRICS = ("hit_rate@2", "ndcg@3", "map", "ctr@2", "distinct_items@2")
FIELDS = EventFields(time="ts", time_unit="s", event_id="id")
MINUTE = 60_000_000

State = tuple[list[tuple[str, ...]], bytes]


def layout(
    metrics: Sequence[str] = METRICS,
    dimensions: Sequence[str] = ("variant",),
    *,
    spans: Sequence[int] = (),
    dedup: int | None = None,
    **more: Any,
) -> Layout:
    empty = Accumulator(*metrics, intervals=more.get("intervals"))
    spec = FamilySpec(
        name="labels",
        metrics=empty.metrics,
        table=empty.table,
        dimensions=tuple(dimensions),
        columns=tuple(range(len(dimensions))),
        spans=tuple(spans),
    )
    return Layout(families=[spec], windowing=Windowing(spans=tuple(spans)), dedup=dedup, **more)


def ingest(of: Layout | None = None, **options: Any) -> Ingest:
    of = of or layout()
    return Ingest(EventFrontend(Decoder(FIELDS, of.families[0].dimensions), of), **options)


def batch(
    values: Sequence[bytes | None], number: int = 0, start: int = 0, **more: Any
) -> RecordBatch:
    return batch_of(Partition("events", number), values, start, **more)


def fed(of: Layout, values: Sequence[bytes | None], ends: Sequence[int] = ()) -> Ingest:
    """A pipeline that has counted these values in batches that end at `ends`."""
    ingested = ingest(of)
    for start, end in pairwise(
        sorted({0, *(cut for cut in ends if cut < len(values)), len(values)})
    ):
        ingested.apply(batch(values[start:end], start=start))
    return ingested


def record(**changed: Any) -> bytes:
    fields = {"recommendations": ["a"], "interactions": [], "ts": 1, "variant": "a", "id": "e"}
    return msgspec.json.encode(fields | changed)


def views(of: Ingest) -> FamilyView:
    view = FamilyView(of.layout.families[0], of.layout.windowing.pane)
    view.refresh(of.copied().families["labels"])
    return view


def lists(of: Ingest, span: int | None = None) -> dict[tuple[str, ...], int]:
    """Lists counted in each slice, over the lifetime or a window."""
    seen = views(of)
    table = seen.lifetime() if span is None else seen.window(span, of.clock or 0)
    counts = table.lists(table.cells).tolist()
    pairs = zip(table.cells.tolist(), counts, strict=True)
    return {seen.labels(cell): accumulator for cell, accumulator in pairs}


def state(of: Ingest, span: int | None = None) -> State:
    """Label values and bytes of all partitions' counts, over the lifetime or a window."""
    seen = views(of)
    table = seen.lifetime() if span is None else seen.window(span, of.clock or 0)
    slices = seen.slices(table).tolist()
    return [seen.labels(cell) for cell in slices], b"".join(table.dump(slices))


def parts(of: Ingest, number: int = 0) -> dict[str, bytes]:
    sections = of.sections(Partition("events", number))
    return content_of(sections)


class Taking:
    def __init__(self, of: Ingest, labels: Sequence[str] = ("variant",), **more: Any) -> None:
        self._ingest = of
        self._snapshots = SnapshotCapture(
            of.layout, source="events", labels=list(labels), started_at=100.0, **more
        )

    def take(self, now: float = 200.0, trouble: str | None = None, **more: Any) -> Snapshot:
        ends = {Partition("events", 0): 9}
        status = RuntimeStatus(health=Health(trouble=trouble), ends=ends, **more)
        return self._snapshots.take(self._ingest.copied(), now, status)
