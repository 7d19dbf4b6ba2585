"""A window is called as the configuration writes it."""

from __future__ import annotations

import json

from streameval.config import Config
from streameval.config.pipeline import new_ingest
from streameval.config.tables import MetricOptions, WindowsOptions
from streameval.decoding.fields import EventFields
from streameval.engine.capture import ingest_snapshot
from streameval.engine.snapshot import Snapshot
from streameval.events.records import Partition
from streameval.exporters.page.history import history
from streameval.exporters.prometheus import PrometheusExporter
from streameval.exporters.web.answers import snapshot_answer
from streameval.sources.settings import SimulatorOptions
from tests.batches import batch_of

SPANS = ["90m", "1d", "7d"]


def snapshot(spans: list[str]) -> Snapshot:
    """A list in each window; the second metric names its window in another way."""
    config = Config(
        metrics=["ctr"],
        metric=[MetricOptions(name="mrr", windows=["168h"])],
        event=EventFields(time="ts", time_unit="s"),
        windows=WindowsOptions(spans=spans),
        source=SimulatorOptions(),
    )
    ingest = new_ingest(config)
    record = {"ts": 1_760_000_000, "recommendations": ["a"], "interactions": ["a"]}
    ingest.apply(batch_of(Partition("events", 0), [json.dumps(record).encode()], 0))
    return ingest_snapshot(ingest, labels=[], now=1_760_000_000.0)


def names(taken: Snapshot, metric: str) -> list[str]:
    return [entry.window for entry in snapshot_answer(taken).metrics if entry.metric == metric]


def test_labels_and_api_have_the_text_as_written() -> None:
    taken = snapshot(SPANS)
    assert names(taken, "ctr") == [*SPANS, "lifetime"]
    assert names(taken, "mrr") == ["7d", "lifetime"]
    exposition = PrometheusExporter(version="1").exposition(taken).decode()
    assert 'window="7d"' in exposition
    assert 'window="168h"' not in exposition
    assert history(taken, "ctr", "7d").series


def test_the_text_changes_with_the_configuration() -> None:
    assert names(snapshot(["168h"]), "ctr") == ["168h", "lifetime"]
