"""The examples of the documentation: services, a consumer, and training loops."""

from __future__ import annotations

import json
import math
import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pytest

from streameval import Accumulator
from streameval.exporters.web import Server
from streameval.testing.broker import Broker
from tests.effort import PATIENCE
from tests.embedding.examples import (
    EXAMPLES,
    List,
    awaited,
    imported,
    lists,
    samples,
    start_example,
)
from tests.house.checkout import ROOT
from tests.kafka.topics import create, fill
from tests.ports import free_port
from tests.processes import finished
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
    with server, httpx.Client(base_url=server.address, timeout=60, trust_env=False) as client:
        client.get("/metrics/")
        yield client


def test_the_service_counts_concurrent_requests(example: ModuleType, client: httpx.Client) -> None:
    def send(number: int) -> None:
        for recommended, clicked in lists(EACH, number):
            outcome = {"variant": "control", "shown": recommended, "clicked": sorted(clicked)}
            assert client.post("/outcomes", json=outcome).status_code == 204
            client.get("/metrics/")

    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(send, range(THREADS)))
    alone = Accumulator(*example.METRICS)
    for number in range(THREADS):
        alone.update_many(lists(EACH, number))
    assert example.variants["control"].state_dict() == alone.state_dict()
    exported = samples(client.get("/metrics/").text)
    assert exported["streameval_ndcg_count{k=10,variant=control}"] == alone.read("ndcg@10").count
    assert exported["streameval_ctr_sum{variant=control}"] == alone.read("ctr").total
    assert exported["streameval_ctr_count{variant=treatment}"] == 0


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
        start_example("plain_loop", tmp_path, str(port)) as loop,
        prometheus(tmp_path, f"127.0.0.1:{port}") as server,
    ):
        count = 'streameval_hit_rate_count{k="10"}'
        assert server.settled(count, 0) == 0
        assert loop.stdin is not None
        for recommended, clicked in lists(500):
            event = {"recommendations": recommended, "interactions": sorted(clicked)}
            loop.stdin.write(f"{json.dumps(event)}\n")
        loop.stdin.flush()
        assert server.settled(count, 500) == 500
        # From the first sample, at 0, to the last, because `increase` extrapolates.
        assert (
            server.settled(f"max_over_time({count}[5m]) - min_over_time({count}[5m])", 500) == 500
        )
        loop.stdin.close()
        assert loop.wait(60) == 0


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.*")))
def test_every_example_is_in_the_documents(path: Path) -> None:
    text = (ROOT / "docs" / "how-to" / "embedding.md").read_text(encoding="utf-8")
    assert f"](../examples/{path.name})" in text


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")))
def test_an_example_says_what_it_needs(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    needs = re.findall(r"# dependencies = \[(.*)\]", text)
    imports = set(re.findall(r"^(?:from|import) (\w+)", text, re.MULTILINE))
    others = imports & {"fastapi", "confluent_kafka", "streameval"}
    assert {name.replace("_", "-") for name in others} <= set(
        re.findall(r'"([\w-]+)(?:\[[^"]*\])?"', needs[0])
    )


COUNT = "streameval_hit_rate_count{k=10}"


def _records(logged: list[List]) -> dict[int, list[bytes | None]]:
    """The lists as records of two partitions."""
    dice = random.Random(1)
    records: dict[int, list[bytes | None]] = {0: [], 1: []}
    for recommended, clicked in logged:
        event = {"recommendations": recommended, "interactions": sorted(clicked)}
        records[dice.randrange(2)].append(json.dumps(event).encode())
    return records


@pytest.mark.kafka
def test_the_consumer_resumes_exactly_where_its_state_ends(broker: Broker, tmp_path: Path) -> None:
    topic, state, logged = create(broker, partitions=2), tmp_path / "state.json", [*lists(600)]
    ends = [(0, 300, signal.SIGTERM), (300, 500, signal.SIGKILL), (500, 600, signal.SIGTERM)]
    for first, last, end in ends:
        # After a kill it counts unsaved records again, exactly once.
        port, saved = free_port(), _lists(state)
        arguments = (broker.bootstrap_servers, topic, str(state), str(port))
        with start_example("confluent_consumer", tmp_path, *arguments) as consumer:
            fill(broker, topic, _records(logged[first:last]))
            assert awaited(port, COUNT, last - saved)[COUNT] == last - saved
            consumer.send_signal(end)
            assert consumer.wait(60) == (0 if end is signal.SIGTERM else -signal.SIGKILL)
    kept = json.loads(state.read_text(encoding="utf-8"))
    alone = Accumulator("ndcg@10", "hit_rate@10")
    alone.update_many(logged)
    assert _restored(kept).state_dict() == alone.state_dict()
    assert sum(kept["offsets"].values()) == 600


def _restored(kept: dict[str, Any]) -> Accumulator:
    accumulator = Accumulator("ndcg@10", "hit_rate@10")
    accumulator.load_state_dict(kept["lists"])
    return accumulator


def _lists(state: Path) -> int:
    """How many are in the state."""
    return _restored(json.loads(state.read_text())).lists if state.exists() else 0


TOP = np.array([[1, 2, 3], [4, 5, 6]])
TRUTH = np.array([2, 9])


def test_the_callback_resets_for_each_validation(monkeypatch: pytest.MonkeyPatch) -> None:
    pytorch: Any = ModuleType("lightning.pytorch")
    pytorch.Callback = object
    package: Any = ModuleType("lightning")
    package.pytorch = pytorch
    monkeypatch.setitem(sys.modules, "lightning", package)
    monkeypatch.setitem(sys.modules, "lightning.pytorch", pytorch)
    callback = imported("lightning_callback").RankingMetrics("mrr")
    logged: dict[str, float] = {}
    module = SimpleNamespace(log=logged.__setitem__)
    for _ in range(2):
        callback.on_validation_epoch_start(None, module)
        for number in range(2):
            outputs = {"top": TOP, "truth": TRUTH}
            callback.on_validation_batch_end(None, module, outputs, None, number)
        callback.on_validation_epoch_end(None, module)
        assert (logged, callback.accumulator.lists) == ({"val/mrr": 0.25}, 4)


class OnDevice(list[Any]):
    """A tensor on a device, which NumPy cannot read."""

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError

    def cpu(self) -> list[Any]:
        return list(self)


@pytest.mark.parametrize("tensor", [np.array, OnDevice])
def test_the_metrics_of_a_trainer_ignore_what_the_loss_ignores(tensor: Any) -> None:
    ranking = imported("hugging_face_metrics").Ranking("mrr", k=2)
    scores = tensor([[0.1, 0.9, 0.5], [0.3, 0.2, 0.1], [1.0, 0.0, 0.0]])
    batch = SimpleNamespace(predictions=scores, label_ids=tensor([2, 0, -100]))
    assert ranking(batch, compute_result=False) == {}
    assert ranking(batch, compute_result=True) == {"mrr": 0.75}
    assert ranking.accumulator.lists == 0


class Distributed:
    """Two ranks of torch.distributed, where the other one has counted."""

    def __init__(self, other: Accumulator) -> None:
        self._other = other

    def get_world_size(self) -> int:
        return 2

    def all_gather_object(self, into: list[Any], mine: Any) -> None:
        into[:] = [mine, self._other.state_dict()]


def test_states_of_all_ranks_merge_to_the_bits_of_one_process() -> None:
    mine, other, alone = (Accumulator("ndcg@3", "distinct_items@3") for _ in range(3))
    mine.update_many(TOP, TRUTH)
    other.update_many(TOP + 1, TRUTH)
    for part in (TOP, TOP + 1):
        alone.update_many(part, TRUTH)
    total = imported("torch_distributed").all_reduce(mine, Distributed(other))
    assert total.state_dict() == alone.state_dict()
    assert mine.lists == 2


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("example", "package", "says"),
    [
        ("torch_distributed", "torch", "512 lists, ndcg@10 0."),
        ("lightning_callback", "lightning", "val/hit_rate@10"),
    ],
)
def test_the_example_runs_with_the_real_package(example: str, package: str, says: str) -> None:
    pytest.importorskip(package)
    command = [sys.executable, "-W", "ignore", str(EXAMPLES / f"{example}.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert says in done.stdout
    lines = [line for line in done.stdout.splitlines() if says in line]
    assert len(set(lines)) == 1


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("example", ["dask_bag", "dagster_asset"])
def test_an_example_runs_with_what_it_says_it_needs(example: str, tmp_path: Path) -> None:
    path = EXAMPLES / f"{example}.py"
    (needs,) = re.findall(r"# dependencies = \[(.*)\]", path.read_text(encoding="utf-8"))
    others = [name for name in re.findall(r'"(.+?)"', needs) if name != "streameval"]
    (tmp_path / "logs").mkdir()
    events = [
        {"recommendations": recommended, "interactions": sorted(clicked)}
        for recommended, clicked in lists(40)
    ]
    for number in range(2):
        text = "".join(f"{json.dumps(event)}\n" for event in events[number::2])
        (tmp_path / "logs" / f"{number}.ndjson").write_text(text)
    python = _install(tmp_path / "venv", str(ROOT), *others)
    done = finished([python, path, "logs/*.ndjson"], cwd=tmp_path, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    alone = Accumulator("ndcg@2", "hit_rate@1")
    for event in events:
        alone.update(event["recommendations"], event["interactions"])
    result = dict(line.split() for line in done.stdout.splitlines())
    assert {name: float(value) for name, value in result.items()} == {
        name: reading.value for name, reading in alone.compute().items()
    }


def _install(venv: Path, *packages: str) -> Path:
    """Make an environment with these packages; returns its interpreter."""
    uv, python = [sys.executable, "-m", "uv"], venv / "bin" / "python"
    for command in (
        [*uv, "venv", "--python", sys.executable, str(venv)],
        [*uv, "pip", "install", "--compile-bytecode", "--python", str(python), *packages],
    ):
        subprocess.run(command, check=True, capture_output=True)
    return python


WITH_MLFLOW = """
import json, sys
import mlflow, pandas
from mlflow.models import evaluate

mlflow.set_tracking_uri(f"sqlite:///{sys.argv[1]}/runs.db")
frame = pandas.DataFrame(
    {"user": ["u1", "u2"], "shown": [["a", "b"], ["d", "e"]], "clicked": [["b"], ["d"]]}
)
usual = {"evaluators": "streameval", "targets": "clicked"}
usual["evaluator_config"] = {"metrics": ["ndcg@2"]}
with mlflow.start_run() as run:
    evaluate(data=frame, predictions="shown", model_type="ranker", **usual)
print(json.dumps(mlflow.MlflowClient().get_run(run.info.run_id).data.metrics))
lists = dict(zip(frame["user"], frame["shown"]))
with mlflow.start_run():
    model = lambda rows: pandas.Series([lists[user] for user in rows["user"]])
    found = evaluate(model, frame[["user", "clicked"]], model_type="retriever", **usual)
print(json.dumps(found.metrics))
"""


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_mlflow_finds_the_evaluator_and_keeps_its_values(tmp_path: Path) -> None:
    python = _install(tmp_path / "venv", f"{ROOT}[tables]", "mlflow")
    command = [str(python), "-W", "ignore", "-c", WITH_MLFLOW, str(tmp_path)]
    done = finished(command, cwd=tmp_path, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    of_column, of_model = map(json.loads, done.stdout.splitlines()[-2:])
    assert of_column == of_model == {"ndcg_2": NDCG}


@pytest.mark.nightly
def test_trackers_keep_the_numbers(tmp_path: Path) -> None:
    pytest.importorskip("mlflow")
    pytest.importorskip("wandb")
    command = [sys.executable, "-W", "ignore", str(EXAMPLES / "trackers.py")]
    stores = {
        "MLFLOW_TRACKING_URI": f"file:{tmp_path / 'mlruns'}",
        "MLFLOW_ALLOW_FILE_STORE": "true",
    }
    done = finished(
        command,
        cwd=tmp_path,
        env={**os.environ, **stores, "WANDB_SILENT": "true"},
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    (run,) = re.findall(r"^mlflow (\w+)$", done.stdout, re.MULTILINE)
    (value,) = re.findall(r"^wandb (.+)$", done.stdout, re.MULTILINE)
    (cached_path,) = tmp_path.glob(f"mlruns/*/{run}/metrics/ndcg_2")
    assert float(value) == float(cached_path.read_text(encoding="utf-8").split()[1]) == NDCG


NDCG = (1.0 + 1.0 / math.log2(3)) / 2
"""Of a list with the hit second, and one with the hit first."""
