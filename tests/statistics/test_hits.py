"""Hits: when events are counted is invisible, and memory does not grow with the stream."""

from __future__ import annotations

import random
import sys

import numpy as np
import pytest

from streameval import Accumulator
from streameval.events import Event
from streameval.statistics.hits import Hits, HitsOfCells
from streameval.statistics.lists import POSITIONED, REFUSED, HitsOptions, lists_of
from streameval.statistics.vocabulary import Items
from tests.contract import laws
from tests.statistics.kinds import batch
from tests.strategies import event_of


@pytest.mark.parametrize("metric", ["distinct_items", "hit_rate"])
def test_lists_that_wait_are_bounded(metric: str) -> None:
    one_by_one, batched, item = Accumulator(metric), Accumulator(metric), "an item"
    for _ in range(160):
        batched.update_many([([item], []) for _ in range(100)])
        for _ in range(100):
            one_by_one.update([item], [])
    assert sys.getrefcount(item) < 10_000


def _profiles(count: int) -> list[Event]:
    draw = random.Random(11)
    items = list(range(60))
    return [event_of(items, draw.sample(items, 8)) for _ in range(count)]


def _view(hits: Hits) -> HitsOfCells:
    return hits.view(np.array([0]))


def test_the_tables_do_not_grow_with_the_stream() -> None:
    hits = Hits(HitsOptions(depth=20), Items())
    sizes = []
    for _ in range(3):
        hits.count(batch(*_profiles(5_000)), 0)
        sizes.append(sum(len(relation.rows()) for relation in hits.relations.values()))
    assert sizes[0] == sizes[1] == sizes[2] < 2_000


def test_the_cut_at_the_depth_is_part_of_the_content() -> None:
    deep, shallow = Hits(HitsOptions(depth=5), Items()), Hits(HitsOptions(depth=2), Items())
    for hits in (deep, shallow):
        hits.count(batch(event_of(["a", "b", "c"], ["c"])), 0)
        hits.count(batch(event_of(["a", "b"], [])), 0)
    assert _view(deep).hits == [1]
    assert _view(shallow).hits == [0]
    assert _view(shallow).count == _view(deep).count == [2]
    assert _view(shallow).without_interactions == [1]
    assert _view(shallow).items(None) == [4]


def test_ranks_beyond_the_depth_are_not_kept() -> None:
    hits = Hits(HitsOptions(depth=3), Items())
    hits.count(batch(event_of(["a", "b"], ["a", "b"], [3, 4])), 0)
    hits.count(batch(event_of(["a", "b"], {"a": 2.0, "b": 3.0}, [3, 4])), 0)
    assert [_view(hits).first(None).rank, _view(hits).first(None).hits] == [[3], [2]]
    assert _view(hits).hits == [2]


@pytest.mark.parametrize(
    ("options", "kind", "interacted"),
    [
        (HitsOptions(), 0, 1),
        (HitsOptions(min_gain=1.0), 0, 1),
        (HitsOptions(min_gain=1.5), 0, 0),
        (HitsOptions(counting="every"), 0, 2),
        (HitsOptions(ids="integer"), REFUSED, 1),
        (HitsOptions(repeats="every"), 0, 1),
    ],
)
def test_positions_and_a_mapping_change_nothing_else(
    options: HitsOptions, kind: int, interacted: int
) -> None:
    items, interactions = ["x", "a"], ["a", "a"]
    expected = (kind, interacted, 2, [2] if interacted else [])
    assert _outcome(options, event_of(items, interactions)) == expected
    assert _outcome(options, event_of(items, interactions, [1, 2])) == (
        kind + POSITIONED,
        *expected[1:],
    )
    if options.ids == "any" and options.counting != "every":
        assert _outcome(options, event_of(items, {"a": 1.0})) == expected


def _outcome(options: HitsOptions, event: Event) -> tuple[int, int, int, list[int]]:
    ((_, lists),) = lists_of(options, batch(event), np.array([0]))
    return int(lists.kind[0]), int(lists.interacted[0]), int(lists.length[0]), lists.rank.tolist()


@pytest.mark.parametrize(
    "options", [HitsOptions(), HitsOptions(depth=30), HitsOptions(counting="every")]
)
def test_an_item_counts_at_its_first_place_with_any_number_of_hits(options: HitsOptions) -> None:
    draw = random.Random(5)
    for hits in (1, 2, 16, 17, 40):
        items = draw.choices(range(50), k=60)
        interactions = draw.sample(range(50), hits)
        retained = items[: options.depth]
        ranks = sorted(retained.index(item) + 1 for item in interactions if item in retained)
        expected = (0, hits, len(retained), ranks)
        assert _outcome(options, event_of(items, interactions)) == expected
        assert _outcome(options, event_of(items, interactions, [*range(1, 61)])) == (
            POSITIONED,
            *expected[1:],
        )


def test_ranks_beyond_those_kept_leave_no_trace() -> None:
    held = [laws.counted(["ctr@1"], [event_of(["a", "b"], [], [1, rank])]) for rank in (5, 9)]
    assert laws.bits(held[0]) == laws.bits(held[1])
