"""A checkpoint of this format that was written once is read for ever, and written so again."""

from __future__ import annotations

import math
from statistics import median_low

import numpy as np
import pytest

from streameval.accumulator.readings import answers
from streameval.catalogue import parse
from streameval.checkpoints.folder import FolderStore
from streameval.windows.views import Views
from tests.stores import golden


def _saved() -> dict[str, bytes]:
    saved = FolderStore(golden.FOLDER).newest(golden.PLACE).saved
    assert saved is not None
    return {name: saved.read(name) for name in saved.digests}


def _expected(variant: str) -> dict[str, float]:
    """By definition, from the events; knows nothing of the package."""
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


@pytest.mark.parametrize("variant", ["a", "b"])
def test_what_was_saved_reads_as_the_events_say(variant: str) -> None:
    ingest = golden.ingest()
    ingest.restore(golden.PARTITION, {golden.PARTITION: golden.EVENTS}, _saved())
    views = Views(ingest.layout.families[0], ingest.layout.times.pane)
    views.show(ingest.copied().families["labels"])
    table = views.lifetime()
    own = [each for each in views.slices(table).tolist() if views.labels(each) == (variant,)]
    for text, value in _expected(variant).items():
        (reading,) = answers(parse(text), table, np.array(own))
        assert reading.value == pytest.approx(value, abs=1e-12), text


def test_the_same_events_are_saved_with_the_same_bytes() -> None:
    assert golden.parts(golden.counted()) == _saved(), "a changed format needs a version of its own"
