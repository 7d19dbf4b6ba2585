"""Real logs, joined from files, equal their joined files and the offline join."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import ran
from tests.daemon.running import exact
from tests.join.offline import Case, joined
from tests.kafka.topics import lines

DATASETS = Path(__file__).parents[3] / "shared" / "datasets"
OTTO = DATASETS / "otto_test_sample"
OBD = DATASETS / "obd_small"
CONFIG = """
metrics = {metrics}
labels = {labels}
[event]
time = "ts"
time_unit = "{unit}"
{more}
[source]
type = "files"
paths = ["{folder}/impressions.ndjson.gz", "{folder}/interactions.ndjson.gz"]
[attribution]
impressions = "{folder}/impressions.ndjson.gz"
{rules}
[[attribution.interactions]]
source = "{folder}/interactions.ndjson.gz"
types = {types}
"""
WINDOW, LATENESS = 1_800_000, 120_000

pytestmark = pytest.mark.skipif(not DATASETS.exists(), reason="the shared data sets are not there")


def evaluated(path: Path, config: str, *arguments: str) -> list[dict[str, Any]]:
    (path / "config.toml").write_text(config)
    done = ran("evaluate", *arguments, "--config", str(path / "config.toml"), "--format", "json")
    assert (done.returncode, done.stderr) == (0, "")
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def test_joined_impressions_and_clicks_equal_their_joined_file(tmp_path: Path) -> None:
    common = {
        "metrics": '["ctr", "hit_rate@3", "ndcg@3", "item_coverage@3"]\ncatalog = 100',
        "labels": '["variant", "campaign"]',
        "unit": "iso8601",
        "more": 'positions = "positions"',
        "rules": 'window = "30m"',
        "types": "{ click = 1 }",
    }
    config = CONFIG.format(folder=OBD, **common)
    found = evaluated(tmp_path, config)
    plain = config.partition("[source]")[0] + '[source]\ntype = "simulator"\n'
    assert exact(found) == exact(evaluated(tmp_path, plain, str(OBD / "events.ndjson.gz")))


def test_last_touch_equals_the_offline_join_in_each_variant(tmp_path: Path) -> None:
    """The interactions name no request; clicks, carts and orders are worth 1, 3 and 10."""
    gains = {"clicks": 1.0, "carts": 3.0, "orders": 10.0}
    config = CONFIG.format(
        folder=OTTO,
        metrics='["hit_rate", "value_per_list", "hit_rate(type=orders)"]',
        labels='["variant"]',
        unit="ms",
        more="",
        rules='key = "user_item"\nrequest_id = "request_id"\nper = ["variant"]\nwindow = "30m"',
        types="{ clicks = 1, carts = 3, orders = 10 }",
    )
    found = {
        (each["metric"], each["labels"]["variant"]): (each["value"], each["count"])
        for each in evaluated(tmp_path, config)
    }
    expected = joined(_case(gains))
    lists, hits, worth = Counter[str](), Counter[str](), Counter[str]()
    for _, (variant,), _, of in expected.events:
        lists[variant] += 1
        hits[variant] += bool(of)
        worth[variant] += sum(gain for _, gain in of)
    for variant in ("recent", "pop"):
        count = lists[variant]
        assert found["hit_rate", variant] == (hits[variant] / count, count)
        assert found["value_per_list", variant] == (worth[variant] / count, count)
    assert hits["recent"] > hits["pop"] > 0


def _case(gains: dict[str, float]) -> Case:
    shown = [json.loads(line) for line in lines(OTTO / "impressions.ndjson.gz")]
    done = [json.loads(line) for line in lines(OTTO / "interactions.ndjson.gz")]
    for each in shown:
        each["shown"] = each["recommendations"]
    for number, each in enumerate(done):
        each |= {"request_id": "", "event_id": str(number)}
    return Case(
        streams=[[shown], [done]],
        key="user_item",
        window=WINDOW,
        lateness=LATENESS,
        per_variant=True,
        gains=gains,
    )
