from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import httpx
import pytest

from streameval import Accumulator
from streameval.exporters.web import Server
from tests.effort import every_case
from tests.embedding.examples import EXAMPLES, imported, started
from tests.embedding.lists import lists, samples
from tests.house.checkout import ROOT
from tests.ports import free_port
from tests.prometheus.server import prometheus

THREADS = 4
EACH = 25


@pytest.fixture(scope="module")
def example() -> ModuleType:
    return imported("fastapi_service")


@pytest.fixture(scope="module")
def client(example: ModuleType) -> Iterator[httpx.Client]:
    """Of the service, which runs."""
    server = Server(example.service, "127.0.0.1:0")
    with server, httpx.Client(base_url=server.address, timeout=300, trust_env=False) as client:
        client.get("/metrics/")
        yield client


def test_the_service_counts_concurrent_requests(example: ModuleType, client: httpx.Client) -> None:
    def send(number: int) -> None:
        for shown, clicked in lists(EACH, number):
            outcome = {"variant": "control", "shown": shown, "clicked": sorted(clicked)}
            assert client.post("/outcomes", json=outcome).status_code == 204
            client.get("/metrics/")

    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(send, range(THREADS)))
    alone = Accumulator(*example.METRICS)
    for number in range(THREADS):
        alone.update_many(lists(EACH, number))
    assert example.variants["control"].state_dict() == alone.state_dict()
    found = samples(client.get("/metrics/").text)
    assert found["streameval_ndcg_count{k=10,variant=control}"] == alone.read("ndcg@10").count
    assert found["streameval_ctr_sum{variant=control}"] == alone.read("ctr").total
    assert found["streameval_ctr_count{variant=treatment}"] == 0


def test_the_service_has_the_page(client: httpx.Client) -> None:
    answer = client.get("/evaluation", follow_redirects=True)
    assert '<h1 id="source">the home page</h1>' in answer.text
    assert client.get("/evaluation/api/v1/metrics").json()["families"][0]["label_names"] == [
        "variant"
    ]


def test_the_service_refuses_an_invalid_outcome(client: httpx.Client) -> None:
    outcome = {"variant": "nobody's", "shown": ["a"], "clicked": []}
    assert client.post("/outcomes", json=outcome).status_code == 422


@pytest.mark.prometheus
def test_the_loop_is_scraped_by_a_real_prometheus_and_no_list_is_lost(tmp_path: Path) -> None:
    port = free_port()
    with (
        started("plain_loop", tmp_path, str(port)) as loop,
        prometheus(tmp_path, f"127.0.0.1:{port}") as server,
    ):
        count = 'streameval_hit_rate_count{k="10"}'
        assert server.settled(count, 0) == 0
        assert loop.stdin is not None
        for shown, clicked in lists(500):
            event = {"recommendations": shown, "interactions": sorted(clicked)}
            loop.stdin.write(f"{json.dumps(event)}\n")
        loop.stdin.flush()
        assert server.settled(count, 500) == 500
        # From the first sample, at 0, to the last, because `increase` extrapolates.
        assert (
            server.settled(f"max_over_time({count}[5m]) - min_over_time({count}[5m])", 500) == 500
        )
        loop.stdin.close()
        assert loop.wait(300) == 0


@every_case("path", sorted(EXAMPLES.glob("*.*")))
def test_every_example_is_in_the_documents(path: Path) -> None:
    text = (ROOT / "docs" / "how-to" / "embedding.md").read_text(encoding="utf-8")
    assert f"](../examples/{path.name})" in text


@every_case("path", sorted(EXAMPLES.glob("*.py")))
def test_an_example_says_what_it_needs(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    needs = re.findall(r"# dependencies = \[(.*)\]", text)
    imports = set(re.findall(r"^(?:from|import) (\w+)", text, re.MULTILINE))
    others = imports & {"fastapi", "confluent_kafka", "streameval"}
    assert {name.replace("_", "-") for name in others} <= set(re.findall(r'"([\w-]+)"', needs[0]))
