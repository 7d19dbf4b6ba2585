"""Pending counts are settled into panes in limited steps."""

from __future__ import annotations

import msgspec
import pytest

from streameval.accumulator.table import Table
from streameval.config import Config
from streameval.config.pipeline import new_ingest
from streameval.events.records import Partition
from streameval.sources.options import SimulatorOptions
from streameval.windows import family
from tests.batches import batch_of

LISTS, LENGTH, MOST = 2_000, 5, 1_000
HERE = Partition("here", 0)


def test_shown_items_are_settled_before_they_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    settled: list[int] = []
    distribute = Table.distribute

    def noted(table: Table, *where: object) -> None:
        settled.append(table.waiting)
        distribute(table, *where)  # type: ignore[arg-type]  # whatever it is given

    monkeypatch.setattr(Table, "distribute", noted)
    monkeypatch.setattr(family, "_MOST_PENDING", MOST)
    ingest = new_ingest(
        Config(metrics=[f"distinct_items@{LENGTH}"], labels=["variant"], source=SimulatorOptions())
    )
    values = [
        msgspec.json.encode(
            {
                "variant": f"v{number % 7}",
                "recommendations": [f"i{number + rank}" for rank in range(LENGTH)],
                "interactions": [],
            }
        )
        for number in range(LISTS)
    ]
    for piece in batch_of(HERE, values).pieces(100):
        ingest.apply(piece)
    assert len(settled) == LISTS * LENGTH // MOST
    assert max(settled) <= MOST + 100 * LENGTH
