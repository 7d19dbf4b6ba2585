"""Clicks per user are all clicks, whatever other metrics are counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streameval import Accumulator, Event, Intervals, compare
from streameval.accumulator.kinds.experiment import activity
from tests.cli.program import json_lines
from tests.present import present

ITEMS = [f"i{rank}" for rank in range(10)]


def visits() -> Iterator[dict[str, Any]]:
    """Lists of ten items with clicks at any rank, some on items that were not shown."""
    random = np.random.default_rng(48)
    for user in range(400):
        for _ in range(1 + int(random.poisson(2))):
            clicked = [item for item in [*ITEMS, "other"] if random.random() < 0.08]
            yield {
                "recommendations": ITEMS,
                "interactions": clicked,
                "variant": ("control", "treatment")[user % 2],
                "user": f"u{user}",
            }


@pytest.mark.parametrize(
    "metrics",
    [
        ["ndcg@1"],
        ["ndcg@3"],
        ["ndcg@10"],
        ["ctr"],
        ["hit_rate@3", "ndcg(min_gain=2)@5"],
        ["value_per_list"],
        ["recall(type=purchase)@2"],
    ],
    ids=" ".join,
)
def test_clicks_at_any_rank_count_whatever_else_is_measured(
    tmp_path: Path, metrics: list[str]
) -> None:
    events, clicks = list(visits()), Counter[str]()
    for event in events:
        clicks[event["variant"]] += len({*event["interactions"]} & {*ITEMS})
    report = compare(str(json_lines(tmp_path / "log.ndjson", events)), *metrics)["clicks_per_user"]
    assert (report.control, report.treatment) == (
        clicks["control"] / 200,
        clicks["treatment"] / 200,
    )


def test_items_at_explicit_positions_have_clicks_at_any_rank() -> None:
    made = Accumulator("hit_rate@2", intervals=Intervals(), experiment=True)
    event = Event(recommendations=["a", "b"], interactions=["a", "b"], positions=[1, 40], user="u1")
    made.update_many([event])
    assert present(activity(made.table, [0])).sums.numerators.sum() == 2


def test_the_clicks_below_a_cut_off_leave_its_metrics_alone() -> None:
    events = [Event(recommendations=ITEMS, interactions=["i9"], user=f"u{n}") for n in range(9)]
    plain = Accumulator("hit_rate@3", "ctr@3", intervals=Intervals())
    watched = Accumulator("hit_rate@3", "ctr@3", intervals=Intervals(), experiment=True)
    for made in (plain, watched):
        made.update_many(events)
    assert [plain.read(name) for name in ("hit_rate@3", "ctr@3")] == [
        watched.read(name) for name in ("hit_rate@3", "ctr@3")
    ]
    assert present(activity(watched.table, [0])).sums.numerators.sum() == 9
