"""Committed checkpoints; `python -m tests.stores.golden` writes them again.

Only a new format version may change them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from streameval import Accumulator, Intervals
from streameval.checkpoints.format import CheckpointDraft, Part, Shard
from streameval.checkpoints.store import folder_store
from streameval.decoding.decode import Decoder
from streameval.decoding.fields import EventFields
from streameval.engine.ingest import EventFrontend, Ingest
from streameval.engine.partition import Layout
from streameval.engine.windows.family import FamilySpec
from streameval.engine.windows.labels import LabelCapOptions
from streameval.engine.windows.times import HOUR, SECOND, Windowing
from streameval.events.records import Partition
from tests.batches import batch_of
from tests.stores.drafts import header

FOLDER = Path(__file__).parent / "golden"
SHARDS = {None: Shard("events", "golden", 0), Intervals(): Shard("events", "golden", 1)}
"""Intervals -> place of the checkpoint with these intervals."""

PARTITION = Partition("events", 0)
SPANS = (300 * SECOND, HOUR, 24 * HOUR)
METRICS = ("hit_rate@1", "ndcg@3", "map@3", "distinct_items@2", "mrr(statistic=median)@3")
EVENTS = 600
_START = 1_700_000_000


class Event(NamedTuple):
    id: str
    ts: int
    variant: str
    shown: list[str]
    interactions: list[str]
    user: str | None


def event(number: int) -> Event:
    """One event of a day and a half, with two named variants and others that are folded."""
    items = [f"item-{(number * 7 + index * 3) % 23}" for index in range(4)]
    variant = f"rare-{number % 31}" if number % 9 == 0 else "ab"[number % 2]
    had = [items[number % 4], "elsewhere"] if number % 3 else []
    user = f"user-{number * number % 97}" if number % 10 else None
    return Event(str(number), _START + number * 220, variant, items, had, user)


def ingest(intervals: Intervals | None = None) -> Ingest:
    empty = Accumulator(*METRICS, intervals=intervals)
    spec = FamilySpec(
        name="labels",
        metrics=empty.metrics,
        table=empty.table,
        dimensions=("variant",),
        columns=(0,),
        spans=SPANS,
        label_caps=LabelCapOptions(cap=3, named=(frozenset({"a", "b"}),)),
    )
    layout = Layout(
        families=[spec], windowing=Windowing(spans=SPANS), dedup=HOUR, intervals=intervals
    )
    decoder = Decoder(
        EventFields(time="ts", time_unit="s", event_id="id", recommendations="shown"), ["variant"]
    )
    return Ingest(EventFrontend(decoder, layout))


def counted(intervals: Intervals | None = None) -> Ingest:
    counter = ingest(intervals)
    values = [msgspec.json.encode(event(number)._asdict()) for number in range(EVENTS)]
    counter.apply(batch_of(PARTITION, values))
    return counter


def parts(of: Ingest) -> dict[str, bytes]:
    return {section.name: b"".join(section.content()()) for section in of.sections(PARTITION)}


def main() -> None:
    store = folder_store(FOLDER)
    store.claim("golden", "golden")
    drafts = []
    for intervals, shard in SHARDS.items():
        names = dict.fromkeys(("release", "cluster", "group"), "golden")
        saved = parts(counted(intervals))
        parts_read = [Part(name=name, content=_content(data)) for name, data in saved.items()]
        made = header(shard, EVENTS, written_at=0.0, **names)
        drafts.append(CheckpointDraft(header=made, parts=parts_read))
    store.save(drafts)


def _content(data: bytes) -> Callable[[], Iterator[bytes]]:
    return lambda: iter([data])


if __name__ == "__main__":
    main()
