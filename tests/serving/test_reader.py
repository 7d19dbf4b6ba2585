"""A reader of a store shows what one process shows that has counted everything, to the bit."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from streameval.checkpoints.store import store_of
from streameval.config import Config
from streameval.config.pipeline import new_ingest
from streameval.config.store_reader import StoreReader
from streameval.engine.capture import RuntimeStatus
from streameval.engine.snapshot import Health
from streameval.events.records import Partition
from streameval.exporters.page.page import page
from streameval.exporters.page.selection import Selection
from streameval.exporters.page.state import daemon_state
from tests.effort import thorough
from tests.serving.replicas import (
    CONFIG,
    PARTITIONS,
    TOPIC,
    Looking,
    Replica,
    batch_of_rows,
    config_of,
    rows_by_partition,
    values,
)


def reader_of(folder: Path, config: Config) -> StoreReader:
    return StoreReader(store_of(str(folder / "state")), config)


WINDOWS = 'windows = { spans = ["1h", "24h"] }'
OTHER = CONFIG.replace("label_cap = 2", "label_cap = 1").replace(
    WINDOWS, 'windows = { spans = ["1h"] }'
)
"""A cap and windows of the reader that are not those of the replicas."""


@pytest.mark.parametrize("text", [CONFIG, OTHER], ids=["alike", "other"])
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.nightly)])
def test_a_standing_reader_shows_what_a_new_one_shows_and_one_process_that_counted_all(
    tmp_path: Path, seed: int, text: str
) -> None:
    draw = random.Random(seed)
    config, here = config_of(tmp_path), config_of(tmp_path, text)
    rows = rows_by_partition()
    replicas = [Replica(config) for _ in range(2)]
    owners = {number: replicas[number % 2] for number in range(PARTITIONS)}
    counted = dict.fromkeys(owners, 0)
    for replica in replicas:
        replica.take(*(number for number, owner in owners.items() if owner is replica))
    standing, looking = reader_of(tmp_path, here), Looking(here)
    alone = new_ingest(config)
    for number in owners:
        alone.begin(Partition(TOPIC, number), {Partition(TOPIC, number): 0})
    for step in range(24 if thorough() else 18):
        number = draw.randrange(PARTITIONS)
        start = counted[number]
        part = rows[number][start : start + draw.choice([1, 1, 2, 60])]
        owners[number].count(number, part, start)
        alone.apply(batch_of_rows(number, part, start))
        counted[number] += len(part)
        if step % 3 == 2:
            for replica in replicas:
                replica.save()
            shown = values(looking.look(standing))
            assert shown == values(Looking(here).look(reader_of(tmp_path, here)))
            if text == CONFIG:
                assert shown == values(Looking(config).take(alone.copied(), alone.layout))


def test_the_page_of_a_reader_that_can_show_nothing_says_why(tmp_path: Path) -> None:
    replica = Replica(config_of(tmp_path))
    replica.take(*range(PARTITIONS))
    other = config_of(tmp_path, CONFIG.replace("intervals = {}", "intervals = {}\nmax_items = 7"))
    reader = reader_of(tmp_path, other)
    reader.refresh()
    stored = reader.stored({})
    status = RuntimeStatus(health=Health(ready=False), stored=stored)
    snapshot = Looking(other).take(reader.copied(), reader.ingest.layout, status)
    html = page(snapshot, daemon_state(snapshot, healthy=True), Selection())
    assert html.count("→ 7") == PARTITIONS
