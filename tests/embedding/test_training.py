"""The examples of training loops, with stand-ins for their frameworks and with the real ones."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from streameval import Accumulator
from tests.effort import PATIENCE
from tests.embedding.examples import EXAMPLES, imported

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


def test_the_metrics_of_a_trainer_ignore_what_the_loss_ignores() -> None:
    ranking = imported("hugging_face_metrics").Ranking("mrr", k=2)
    scores = np.array([[0.1, 0.9, 0.5], [0.3, 0.2, 0.1], [1.0, 0.0, 0.0]])
    batch = SimpleNamespace(predictions=scores, label_ids=np.array([2, 0, -100]))
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
    whole = imported("torch_distributed").all_reduce(mine, Distributed(other))
    assert whole.state_dict() == alone.state_dict()
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
