"""The golden checkpoints can be read, and the same events give the same bytes."""

from __future__ import annotations

import math
from pathlib import Path
from statistics import median_low

import numpy as np
import pytest

from streameval import Intervals
from streameval.accumulator.kinds.groups import groups_of
from streameval.accumulator.kinds.users import audiences
from streameval.accumulator.readings import readings_of
from streameval.accumulator.table import Table
from streameval.catalogue import parse
from streameval.checkpoints.store import folder_store
from streameval.engine.windows.views import FamilyView
from streameval.statistics.arrays import IntArray
from tests.metrics.preparation import user_hash
from tests.present import present
from tests.stores import golden

every_checkpoint = pytest.mark.parametrize("intervals", golden.SHARDS)


def _sections(intervals: Intervals | None, folder: Path = golden.FOLDER) -> dict[str, bytes]:
    saved = folder_store(folder).newest(golden.SHARDS[intervals]).saved
    assert saved is not None
    return {name: saved.read(name) for name in saved.digests}


def _expected(variant: str) -> dict[str, float]:
    """The values by definition, computed from the events without the package."""
    events = [golden.event(number) for number in range(golden.EVENTS)]
    of_variant = [row for row in events if row.variant == variant]
    firsts, hits, seen, gains = [], [], set[str](), []
    for event in of_variant:
        shown, had = event.shown[:3], set(event.interactions)
        ranks = [rank for rank, item in enumerate(shown, 1) if item in had]
        seen |= set(shown[:2])
        firsts.append(1 / ranks[0] if ranks else 0.0)
        hits.append(shown[0] in had)
        if had:
            ideal = sum(1 / math.log2(rank + 1) for rank in range(1, min(3, len(had)) + 1))
            gains.append(sum(1 / math.log2(rank + 1) for rank in ranks) / ideal)
    return {
        "hit_rate@1": sum(hits) / len(hits),
        "ndcg@3": sum(gains) / len(gains),
        "distinct_items@2": len(seen),
        "mrr(statistic=median)@3": median_low(firsts),
    }


def _read(intervals: Intervals | None, variant: str) -> tuple[Table, IntArray]:
    """The saved lifetime, and the cell of a variant."""
    ingest = golden.ingest(intervals)
    ingest.restore(golden.PARTITION, {golden.PARTITION: golden.EVENTS}, _sections(intervals))
    views = FamilyView(ingest.layout.families[0], ingest.layout.windowing.pane)
    views.refresh(ingest.copied().families["labels"])
    table = views.lifetime()
    cells = [cell for cell in views.slices(table).tolist() if views.labels(cell) == (variant,)]
    return table, np.array(cells)


@every_checkpoint
@pytest.mark.parametrize("variant", ["a", "b"])
def test_a_golden_checkpoint_gives_the_values_of_its_events(
    intervals: Intervals | None, variant: str
) -> None:
    table, cells = _read(intervals, variant)
    for text, value in _expected(variant).items():
        (reading,) = readings_of(parse(text), table, cells)
        assert reading.value == pytest.approx(value, abs=1e-12), text


@pytest.mark.parametrize("variant", ["a", "b"])
def test_saved_sums_by_user_group_equal_those_of_the_events(variant: str) -> None:
    table, cells = _read(Intervals(), variant)
    events = [golden.event(number) for number in range(golden.EVENTS)]
    expected = {day: np.zeros((2, 256)) for day in {row.ts // 86_400 for row in events}}
    of_variant = [row for row in events if row.variant == variant]
    for event in of_variant:
        group = user_hash(event.id if event.user is None else event.user) % 256
        expected[event.ts // 86_400][:, group] += event.shown[0] in event.interactions, 1
    (user_sums,) = present(groups_of(table)).of("hit_rate@1", cells)
    assert user_sums.days.tolist() == sorted(expected)
    for day, *sums in zip(
        user_sums.days.tolist(), user_sums.numerators, user_sums.denominators, strict=True
    ):
        assert np.array_equal(sums, expected[day])
    (audience,) = audiences(table, cells)
    users = {row.user for row in of_variant if row.user is not None}
    assert audience.hashes.tolist() == sorted(map(user_hash, users))
    nameless = sum(row.user is None for row in of_variant)
    assert (audience.lists, audience.anonymous) == (len(of_variant), nameless)


@every_checkpoint
def test_the_same_events_are_saved_with_the_same_bytes(intervals: Intervals | None) -> None:
    contents = golden.parts(golden.counted(intervals))
    assert contents == _sections(intervals), "a changed format needs a version of its own"
