"""From files through a real topic and the daemon to known values."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from streameval.testing.broker import Broker
from tests.cli.program import dataset, ran
from tests.daemon.running import exact, readings, running

CONFIG = """
metrics = ["ctr", "hit_rate@10", "ndcg@10", "item_coverage@10"]
labels = ["variant", "campaign"]
catalog = 80

[source]
type = "kafka"
topics = ["{topic}"]
group = "streameval"
start = "earliest"
[source.kafka]
bootstrap_servers = "{servers}"

[event]
time = "ts"
time_unit = "iso8601"

[web]
listen = "127.0.0.1:0"
first_exposure = "0s"
"""


@pytest.mark.kafka
def test_a_published_data_set_gives_its_counts_and_the_bits_of_evaluate(
    broker: Broker, tmp_path: Path
) -> None:
    folder = dataset("obd_small")
    events = folder / "events.ndjson.gz"
    topic = f"test-{uuid.uuid4().hex[:12]}"
    servers = broker.bootstrap_servers
    done = ran("publish", events, "--bootstrap-servers", servers, "--topic", topic)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"40,000 records published to topic {topic}, created with 4 partitions.\n"

    with running(CONFIG.format(topic=topic, servers=servers), tmp_path) as daemon:
        document = daemon.consumed(40_000)
        scrape = daemon.until(lambda: _beyond_zero(daemon.get("/metrics").text))
        assert daemon.get("/-/ready").status_code == 200
        assert daemon.stop() == 0

    _assert_all_is_read(document)
    assert set(scrape.splitlines()) >= _expected_samples(folder)
    config = tmp_path / "streameval.toml"
    offline = ran("evaluate", events, "--config", config, "--format", "json")
    assert exact(readings(document)) == exact(json.loads(offline.stdout))


def _assert_all_is_read(document: dict[str, Any]) -> None:
    health = document["health"]
    assert (health["valid"], health["tombstones"]) == (40_000, 0)
    assert [each["lag"] for each in health["partitions"]] == [0] * 4


def _expected_samples(folder: Path) -> set[str]:
    """The samples expected from the known clicks and impressions."""
    return {
        f'streameval_ctr_{name}{{campaign="{arm["campaign"]}",variant="{arm["policy"]}"}} {value}'
        for arm in json.loads((folder / "expected.json").read_text())
        for name, value in (("sum", float(arm["clicks"])), ("count", float(arm["n"])))
    }


def _beyond_zero(scrape: str) -> str:
    """A scrape after every counter has risen from 0."""
    sums = [line for line in scrape.splitlines() if line.startswith("streameval_ctr_sum")]
    return scrape if len(sums) == 4 and not any(line.endswith(" 0.0") for line in sums) else ""
