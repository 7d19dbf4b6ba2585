"""Comparisons of two accumulators agree with the usual paired test by user."""

from __future__ import annotations

import gzip
import json
import math
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streameval import Accumulator, Batch, Intervals, compare
from streameval.events.errors import NotComparableError, UnlikeStateError
from streameval.inference.interval_formulas import log_student_tail
from tests.cli.program import run
from tests.datasets import dataset
from tests.effort import sampled
from tests.present import present
from tests.strategies import event_of

ITEMS = [f"i{place}" for place in range(5)]
DAY = 86_400 * 1_000_000


def pair(random: np.random.Generator, users: int, lift: float) -> tuple[list[int], list[int]]:
    """The rank of each user's one relevant item, for two similar models."""
    skill = random.beta(2, 3, users)
    luck = random.random((2, users))
    ranks = (5 * np.clip(0.7 * (1 - skill) + 0.3 * luck - [[0.0], [lift]], 0, 0.999)).astype(int)
    return ranks[0].tolist(), ranks[1].tolist()


def counted(ranks: list[int], users: list[str]) -> Accumulator:
    accumulator = Accumulator("ndcg@5", intervals=Intervals())
    relevant = [[ITEMS[rank]] for rank in ranks]
    accumulator.update_many(
        Batch(recommendations=[ITEMS] * len(ranks), interactions=relevant, users=users)
    )
    return accumulator


def paired_t(ranks: tuple[list[int], list[int]]) -> float:
    control, other = (1 / np.log2(np.array(positions) + 2.0) for positions in ranks)
    change = other - control
    t = abs(change.mean()) / (change.std(ddof=1) / math.sqrt(change.size))
    return 2 * math.exp(log_student_tail(float(t), change.size - 1.0))


@pytest.mark.parametrize("lift", [0.0, 0.02])
def test_fixed_agrees_with_a_paired_t_test_by_user(lift: float) -> None:
    ours, theirs = [], []
    for trial in range(40):
        random = np.random.default_rng([8, trial])
        names = [f"user {random.integers(10**12)}" for _ in range(600)]
        ranks = pair(random, 600, lift)
        control, other = (counted(positions, names) for positions in ranks)
        ours.append(math.log(compare(control, other, "ndcg@5").p_value))
        theirs.append(math.log(paired_t(ranks)))
    assert np.corrcoef(ours, theirs)[0, 1] > 0.98


def test_anytime_is_wider_than_fixed() -> None:
    random = np.random.default_rng(9)
    names = [f"u{user}" for user in range(2_000)]
    control, other = (counted(positions, names) for positions in pair(random, 2_000, 0.05))
    fixed, anytime = (
        compare(control, other, "ndcg@5", method=method) for method in ("fixed", "anytime")
    )
    widths = [present(one.high) - present(one.low) for one in (fixed, anytime)]
    assert widths[1] > 1.5 * widths[0]
    assert (fixed.kind, anytime.kind) == ("fixed", "anytime")


def test_lists_without_a_user_are_not_trusted() -> None:
    arm = Accumulator("mrr", intervals=Intervals())
    arm.update_many(
        event_of(["a"], ["a"] if user % 3 else [], user=f"u{user}" if user % 4 else None)
        for user in range(400)
    )
    assert compare(arm, arm, "mrr").verdict == "do not trust"


def test_a_metric_that_cannot_be_compared_gives_the_reason() -> None:
    plain, kept = Accumulator("mrr"), Accumulator("mrr", "gini@3", intervals=Intervals())
    with pytest.raises(NotComparableError, match="with intervals"):
        compare(plain, kept, "mrr")
    with pytest.raises(NotComparableError, match="gini@3"):
        compare(kept, kept, "gini@3")
    with pytest.raises(NotComparableError, match="not configured from the start"):
        compare(kept, kept, "ndcg@3")
    with pytest.raises(UnlikeStateError, match="numbers of user groups"):
        compare(kept, Accumulator("mrr", intervals=Intervals(groups=64)), "mrr")


def test_arms_without_a_common_day_are_not_said_to_have_too_few_users() -> None:
    def arm(ts: int | None) -> Accumulator:
        accumulator = Accumulator("ctr", intervals=Intervals())
        accumulator.update_many(
            event_of(["a"], ["a"] if user % 3 else [], user=f"u{user}", ts=ts)
            for user in range(400)
        )
        return accumulator

    dated, undated, empty = arm(20_000 * DAY), arm(None), Accumulator("ctr", intervals=Intervals())
    for other in (undated, arm(20_001 * DAY)):
        with pytest.raises(NotComparableError, match="No event day has lists of both: give ts="):
            compare(dated, other, "ctr")
    assert compare(dated, dated, "ctr").difference == 0
    assert compare(dated, empty, "ctr").verdict == "too few users"


def records(campaign: str) -> list[dict[str, Any]]:
    with gzip.open(dataset("slots") / "events.ndjson.gz") as file:
        return [record for record in map(json.loads, file) if record["campaign"] == campaign]


def oracle(events: list[dict[str, Any]]) -> tuple[float, float]:
    """Difference of the click-through rates and its standard error by a jackknife over users."""
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0, 0.0])
    for event in events:
        place = 2 * (event["variant"] == "bts")
        sums[event["user"]][place] += len(set(event["interactions"]))
        sums[event["user"]][place + 1] += len(event["recommendations"])
    whole = [sum(column) for column in zip(*sums.values(), strict=True)]

    def difference(clicks: float, shown: float, others: float, of: float) -> float:
        return others / of - clicks / shown

    estimate = difference(*whole)
    moved = [
        difference(*(total - share for total, share in zip(whole, user_sums, strict=True)))
        - estimate
        for user_sums in sums.values()
    ]
    return estimate, math.sqrt((len(moved) - 1) / len(moved) * sum(move**2 for move in moved))


@pytest.mark.parametrize("campaign", sampled(["men", "women"], 2))
def test_bounds_are_those_of_sums_by_user(campaign: str, tmp_path: Path) -> None:
    events = records(campaign)
    path = tmp_path / "events.ndjson"
    path.write_text("".join(f"{json.dumps(event)}\n" for event in events))
    done = run(
        "compare", path, "-m", "ctr", "--control", "random", "--same-users", "--format", "json"
    )
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["comparisons"]
    difference, error = oracle(events)
    assert row["difference"] == pytest.approx(difference, abs=1e-9)
    half = (row["high"] - row["low"]) / 2
    assert half == pytest.approx(1.96 * error, rel=0.12)
    # Users are cohorts here, and a few of them have most of the traffic.
    assert 12 < row["groups"] < 256


def test_means_over_users_are_compared_in_which_each_account_counts_once() -> None:
    """A bot of 2,000 lists decides the mean over lists, and is one of 800 users here."""
    random, metric = np.random.default_rng(12), "hit_rate(per=user)"
    arms, means = [], []
    for name, rate in (("a", 0.2), ("b", 0.3)):
        accumulator = Accumulator(metric, "hit_rate", intervals=Intervals())
        by_user: dict[str, list[bool]] = {}
        visits = [(f"{name}{user}", 1 + int(random.poisson(2)), rate) for user in range(800)]
        for user, lists, chance in (*visits, (f"{name} bot", 2_000, 1.0 - 3 * rate)):
            hits = (random.random(lists) < chance).tolist()
            by_user[user] = hits
            clicked = [["i0"] if hit else [] for hit in hits]
            accumulator.update_many(
                Batch(recommendations=[["i0"]] * lists, interactions=clicked, users=[user] * lists)
            )
        arms.append(accumulator)
        means.append(np.mean([np.mean(hits) for hits in by_user.values()]))
    control, treatment = arms
    report, of_lists = (compare(control, treatment, text) for text in (metric, "hit_rate"))
    assert (report.control, report.treatment) == pytest.approx(means, rel=1e-9)
    assert (report.verdict, of_lists.verdict) == ("better", "too few users")
    assert report.heaviest < 0.1 < of_lists.heaviest
    assert present(report.low) < means[1] - means[0] < present(report.high)


def test_means_over_users_need_the_names_of_users() -> None:
    arms = [Accumulator("hit_rate(per=user)", intervals=Intervals()) for _ in range(2)]
    for arm in arms:
        arm.update_many(Batch(recommendations=[["i0"]] * 20, interactions=[["i0"]] * 20))
    with pytest.raises(NotComparableError, match="user"):
        compare(arms[0], arms[1], "hit_rate(per=user)")
