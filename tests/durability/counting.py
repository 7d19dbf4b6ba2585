"""A minimal pipeline with windows, label folding and deduplication; and records for it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from streameval.accumulator import Accumulator
from streameval.checkpoints.format import digest_of
from streameval.decoding.decode import Decoder
from streameval.decoding.fields import EventFields
from streameval.engine.ingest import EventFrontend, Ingest
from streameval.engine.partition import Layout
from streameval.events.records import Partition
from streameval.windows.family import FamilySpec
from streameval.windows.labels import FoldingOptions
from streameval.windows.times import Windowing

MINUTE = 60_000_000
START = 1_700_000_000 // 60
"""The minute in which event time begins."""

TIMES = Windowing(pane=MINUTE, spans=(3 * MINUTE,), lateness=MINUTE)
FIELDS = EventFields(time="ts", time_unit="s", event_id="id")

METRIC = "hit_rate@1"
_HITS = Accumulator(METRIC)


def ingest(spans: tuple[int, ...] = TIMES.spans) -> Ingest:
    windowing = msgspec.structs.replace(TIMES, spans=spans)
    families = [
        FamilySpec(
            name="labels",
            dimensions=("variant",),
            columns=(0,),
            spans=spans,
            metrics=_HITS.metrics,
            table=_HITS.table,
            folding=FoldingOptions(cap=2),
        ),
        FamilySpec(
            name="country",
            metrics=_HITS.metrics,
            table=_HITS.table,
            dimensions=("country",),
            columns=(1,),
        ),
    ]
    layout = Layout(families=families, windowing=windowing, dedup=600 * MINUTE, recent=1)
    return Ingest(EventFrontend(Decoder(FIELDS, ["variant", "country"]), layout), keep_letters=True)


def record(number: int, *, minute: int, variant: str, hit: bool = True) -> bytes:
    """An event; its number is its id."""
    return msgspec.json.encode(
        {
            "recommendations": ["a"],
            "interactions": ["a" if hit else "b"],
            "ts": (START + minute) * 60,
            "id": str(number),
            "variant": variant,
            "country": "nl" if number % 2 else "de",
        }
    )


def digests(of: Ingest, partition: Partition) -> Mapping[str, str]:
    return {each.name: digest_of(*each.content()()) for each in of.sections(partition)}
