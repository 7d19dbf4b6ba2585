"""The golden checkpoints can be read, and the same events give the same bytes."""

from __future__ import annotations

import math
from statistics import median_low

import numpy as np
import pytest

from streameval import Intervals
from streameval.accumulator.readings import audiences, readings_of
from streameval.accumulator.table import Table
from streameval.catalogue import parse
from streameval.checkpoints.store import folder_store
from streameval.statistics.arrays import IntArray
from streameval.windows.views import FamilyView
from tests.metrics.preparation import user_hash
from tests.stores import golden

every_checkpoint = pytest.mark.parametrize("intervals", golden.PLACES)


def _saved(intervals: Intervals | None) -> dict[str, bytes]:
    saved = folder_store(golden.FOLDER).newest(golden.PLACES[intervals]).saved
    assert saved is not None
    return {name: saved.read(name) for name in saved.digests}


def _expected(variant: str) -> dict[str, float]:
    """The values by definition, computed from the events without the package."""
    events = [golden.event(number) for number in range(golden.EVENTS)]
    own = [each for each in events if each.variant == variant]
    firsts, found, seen, gains = [], [], set[str](), []
    for each in own:
        shown, had = each.shown[:3], set(each.interactions)
        ranks = [rank for rank, item in enumerate(shown, 1) if item in had]
        seen |= set(shown[:2])
        firsts.append(1 / ranks[0] if ranks else 0.0)
        found.append(shown[0] in had)
        if had:
            ideal = sum(1 / math.log2(rank + 1) for rank in range(1, min(3, len(had)) + 1))
            gains.append(sum(1 / math.log2(rank + 1) for rank in ranks) / ideal)
    return {
        "hit_rate@1": sum(found) / len(found),
        "ndcg@3": sum(gains) / len(gains),
        "distinct_items@2": len(seen),
        "mrr(statistic=median)@3": median_low(firsts),
    }


def _read(intervals: Intervals | None, variant: str) -> tuple[Table, IntArray]:
    """The saved lifetime, and the cell of a variant."""
    ingest = golden.ingest(intervals)
    ingest.restore(golden.PARTITION, {golden.PARTITION: golden.EVENTS}, _saved(intervals))
    views = FamilyView(ingest.layout.families[0], ingest.layout.windowing.pane)
    views.refresh(ingest.copied().families["labels"])
    table = views.lifetime()
    own = [each for each in views.slices(table).tolist() if views.labels(each) == (variant,)]
    return table, np.array(own)


@every_checkpoint
@pytest.mark.parametrize("variant", ["a", "b"])
def test_a_golden_checkpoint_gives_the_values_of_its_events(
    intervals: Intervals | None, variant: str
) -> None:
    table, own = _read(intervals, variant)
    for text, value in _expected(variant).items():
        (reading,) = readings_of(parse(text), table, own)
        assert reading.value == pytest.approx(value, abs=1e-12), text


@pytest.mark.parametrize("variant", ["a", "b"])
def test_saved_sums_by_user_group_equal_those_of_the_events(variant: str) -> None:
    table, own = _read(Intervals(), variant)
    events = [golden.event(number) for number in range(golden.EVENTS)]
    expected = {day: np.zeros((2, 256)) for day in {each.ts // 86_400 for each in events}}
    mine = [each for each in events if each.variant == variant]
    for each in mine:
        group = user_hash(each.id if each.user is None else each.user) % 256
        expected[each.ts // 86_400][:, group] += each.shown[0] in each.interactions, 1
    assert table.groups is not None
    (found,) = table.groups.of("hit_rate@1", own)
    assert found.days.tolist() == sorted(expected)
    for day, *sums in zip(found.days.tolist(), found.numerators, found.denominators, strict=True):
        assert np.array_equal(sums, expected[day])
    (audience,) = audiences(table, own)
    users = {each.user for each in mine if each.user is not None}
    assert audience.hashes.tolist() == sorted(map(user_hash, users))
    nameless = sum(each.user is None for each in mine)
    assert (audience.lists, audience.anonymous) == (len(mine), nameless)


@every_checkpoint
def test_the_same_events_are_saved_with_the_same_bytes(intervals: Intervals | None) -> None:
    found = golden.parts(golden.counted(intervals))
    assert found == _saved(intervals), "a changed format needs a version of its own"
