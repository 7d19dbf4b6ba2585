"""The loop of the page on training, as it is printed there."""

from __future__ import annotations

import textwrap
from typing import Any, NamedTuple

import numpy as np
import pytest

from streameval import Accumulator, evaluate
from tests.house.checkout import ROOT

_PAGE = ROOT / "docs" / "how-to" / "training-loop.md"
USERS, ITEMS, BATCH = 60, 40, 16


class Best(NamedTuple):
    values: Any
    indices: Any


class Tensor(np.ndarray[Any, Any]):
    """An array with the method of a tensor that the loop calls."""

    def topk(self, depth: int) -> Best:
        indices = np.argsort(-np.asarray(self), axis=1, kind="stable")[:, :depth]
        return Best(np.take_along_axis(np.asarray(self), indices, axis=1), indices)


def _tensor(library: str, content: np.ndarray[Any, Any]) -> Any:
    if library == "numpy":
        return content.copy().view(Tensor)
    return pytest.importorskip("torch").tensor(content)


@pytest.mark.parametrize("library", ["numpy", pytest.param("torch", marks=pytest.mark.nightly)])
def test_the_loop_has_the_values_of_one_call(library: str) -> None:
    draw = np.random.default_rng(3)
    scores = draw.permutation(USERS * ITEMS).reshape(USERS, ITEMS) / 100.0
    truth = draw.integers(ITEMS, size=USERS)
    seen = (truth + 1) % ITEMS
    parts = [slice(start, start + BATCH) for start in range(0, USERS, BATCH)]
    logged: dict[str, float] = {}
    namespace: dict[str, Any] = {
        "Accumulator": Accumulator,
        "validation": [(part, _tensor(library, truth[part])) for part in parts],
        "log": logged.__setitem__,
    }

    def model(part: slice) -> Any:
        namespace["seen_rows"] = np.arange(len(scores[part]))
        namespace["seen_items"] = seen[part]
        return _tensor(library, scores[part])

    namespace["model"] = model
    lines = _PAGE.read_text(encoding="utf-8").splitlines()
    code = "\n".join(line for line in lines if line.startswith("    "))
    exec(textwrap.dedent(code), namespace)
    exclude = [[int(item)] for item in seen]
    total = evaluate(scores, truth, "ndcg@10", "hit_rate@10", exclude=exclude)
    assert logged == {f"val/{name}": total[name].value for name in total}
    assert namespace["metrics"].lists == 0
