"""Plain records are counted the same, to the byte, whichever decoder reads them."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence

from streameval.config import Config
from streameval.config.pipeline import layout
from streameval.config.tables import WindowsOptions
from streameval.decoding.columns import Decoded
from streameval.decoding.decode import Decoder
from streameval.decoding.fields import EventFields
from streameval.decoding.framing import BatchDecoder
from streameval.decoding.general import GeneralDecoder
from streameval.engine.ingest import EventFrontend, Ingest
from streameval.events.records import Partition
from streameval.sources.settings import SimulatorOptions
from streameval.statistics.matching import Search
from tests.batches import batch_of, content_of

_LOG = Partition("events", 0)
_CONFIG = Config(
    metrics=["ndcg@10", "mrr", "item_coverage@5", "users_covered", "gini@5"],
    catalog=50,
    labels=["variant", "country"],
    event=EventFields(time="ts", time_unit="s"),
    source=SimulatorOptions(),
    windows=WindowsOptions(spans=["5m"]),
)


def _record(draw: random.Random, number: int) -> bytes:
    items = [f"item-{item}" for item in draw.sample(range(50), 10)]
    interactions = [*draw.sample(items, draw.randint(0, 2)), f"item-{draw.randint(0, 60)}"]
    record = {
        "recommendations": items if draw.random() < 0.9 else [{"id": item} for item in items],
        "interactions": interactions
        if draw.random() < 0.7
        else dict.fromkeys(interactions, 0.25 * number),
        "user": f"usér {draw.randint(0, 30)}",
        "variant": draw.choice("ab"),
        "country": draw.choice(["de", "物", 7, None, ""]),
        "ts": 1_700_000_000.1234567 + draw.choice((number, number, 10 * number)),
    }
    return json.dumps(record, ensure_ascii=draw.random() < 0.1).encode()


def _sections(decoder: BatchDecoder[Decoded], values: Sequence[bytes]) -> dict[str, bytes]:
    ingest = Ingest(EventFrontend(decoder, layout(_CONFIG)))
    for start in range(0, len(values), 70):
        ingest.apply(batch_of(_LOG, values[start : start + 70], start))
    return content_of(ingest.sections(_LOG))


def test_the_saved_state_is_the_same_to_the_byte() -> None:
    draw = random.Random(4)
    values = [_record(draw, number) for number in range(300)]
    by_scanner = _sections(Decoder(_CONFIG.event, _CONFIG.dimensions(), Search()), values)
    assert by_scanner == _sections(GeneralDecoder(_CONFIG.event, _CONFIG.dimensions()), values)
    assert len(by_scanner) > 3
