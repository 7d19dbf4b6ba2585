"""Small pipelines, and batches to feed them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from streameval.accumulator import Accumulator
from streameval.aggregation.spec import FamilySpec
from streameval.aggregation.time import Times
from streameval.pipeline.decode import Decoder
from streameval.pipeline.direct import Direct
from streameval.pipeline.fields import EventFields
from streameval.pipeline.ingest import Ingest
from streameval.pipeline.layout import Layout
from streameval.records import Partition, RecordBatch

METRICS = ("hit_rate@2", "ndcg@3", "map", "ctr@2", "distinct_items@2")
FIELDS = EventFields(time="ts", time_unit="s", event_id="id")
MINUTE = 60_000_000

State = list[tuple[tuple[str, ...], dict[str, Any]]]


def layout(
    metrics: Sequence[str] = METRICS,
    dimensions: Sequence[str] = ("variant",),
    *,
    spans: Sequence[int] = (),
    dedup: int | None = None,
    **more: Any,
) -> Layout[Accumulator]:
    spec = FamilySpec(
        name="labels",
        dimensions=tuple(dimensions),
        columns=tuple(range(len(dimensions))),
        spans=tuple(spans),
        new=Accumulator(*metrics).copy,
    )
    return Layout(families=[spec], times=Times(spans=tuple(spans)), dedup=dedup, **more)


def ingest(of: Layout[Accumulator] | None = None, **options: Any) -> Ingest[Accumulator]:
    of = of or layout()
    return Ingest(Direct(Decoder(FIELDS, of.families[0].dimensions), of), **options)


def batch(
    values: Sequence[bytes | None], number: int = 0, start: int = 0, **more: Any
) -> RecordBatch:
    return RecordBatch(
        partition=Partition("events", number),
        values=values,
        offsets=range(start, start + len(values)),
        next_offset=start + len(values),
        **more,
    )


def record(**changed: Any) -> bytes:
    fields = {"recommendations": ["a"], "interactions": [], "ts": 1, "variant": "a", "id": "e"}
    return msgspec.json.encode(fields | changed)


def state(of: Ingest[Accumulator]) -> State:
    return [(labels, whole.state_dict()) for labels, whole in of.views["labels"].lifetime()]


def parts(of: Ingest[Accumulator], number: int = 0) -> dict[str, bytes]:
    sections = of.sections(Partition("events", number))
    return {each.name: b"".join(each.content()()) for each in sections}
