"""Random against Thompson sampling in the Open Bandit Dataset, against sums by user by hand."""

from __future__ import annotations

import gzip
import json
import math
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import dataset, ran
from tests.effort import sampled


def records(campaign: str) -> list[dict[str, Any]]:
    with gzip.open(dataset("obd_small") / "events.ndjson.gz") as file:
        return [each for each in map(json.loads, file) if each["campaign"] == campaign]


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

    found = difference(*whole)
    moved = [
        difference(*(total - own for total, own in zip(whole, each, strict=True))) - found
        for each in sums.values()
    ]
    return found, math.sqrt((len(moved) - 1) / len(moved) * sum(each**2 for each in moved))


@pytest.mark.parametrize("campaign", sampled(["men", "women"], 2))
def test_bounds_are_those_of_sums_by_user(campaign: str, tmp_path: Path) -> None:
    events = records(campaign)
    path = tmp_path / "events.ndjson"
    path.write_text("".join(f"{json.dumps(each)}\n" for each in events))
    done = ran(
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
