"""The notebook of one call, as Jupyter runs it, and its numbers by other systems' own calls."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from streameval import evaluate
from tests.effort import PATIENCE
from tests.embedding.examples import EXAMPLES
from tests.processes import finished

_SAID = """
import json

print(json.dumps({"values": values, "run": by_query[0], "qrels": by_query[1]}))
"""
_QUERIES = """
by_query = [
    {
        str(user): {str(item): float(worth) for item, worth in zip(part["movieId"], part[number])}
        for user, part in frame.groupby("userId")
    }
    for frame, number in ((recommended, "score"), (test, "rating"))
]
"""


@pytest.fixture(scope="module")
def notebook_values(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The values of each form, and the data, as the notebook has them at its end."""
    folder = tmp_path_factory.mktemp("one_call")
    notebook = json.loads((EXAMPLES / "one_call.ipynb").read_text(encoding="utf-8"))
    last = next(cell for cell in notebook["cells"] if cell["cell_type"] == "code")
    notebook["cells"].append({**last, "id": "said", "source": _QUERIES + _SAID})
    path = folder / "one_call.ipynb"
    path.write_text(json.dumps(notebook), encoding="utf-8")
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = finished(
        [sys.executable, "-m", "jupyter", "execute", "--inplace", str(path)],
        cwd=folder,
        env={**os.environ, "PATH": programs, "IPYTHONDIR": str(folder / "ipython")},
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    outcome: dict[str, Any] = json.loads("".join(cells[-1]["outputs"][-1]["text"]))
    outcome["report"] = (folder / "report.html").read_text(encoding="utf-8")
    return outcome


def test_every_form_has_the_same_values(notebook_values: dict[str, Any]) -> None:
    scores, *others = notebook_values["values"]
    assert len(others) == 3
    assert others == [scores] * 3
    by_hand = evaluate(notebook_values["run"], notebook_values["qrels"], *scores)
    assert {metric: by_hand[metric].value for metric in scores} == scores
    assert len(set(scores.values())) == 4
    assert "neighbours" in notebook_values["report"]


@pytest.mark.nightly
# ranx' own compiled code warns of its own casts.
@pytest.mark.filterwarnings("ignore:.*unsafe cast from uint64")
def test_ranx_has_these_values(notebook_values: dict[str, Any]) -> None:
    ranx = pytest.importorskip("ranx")
    qrels = {
        query: {d: int(r) for d, r in of.items()} for query, of in notebook_values["qrels"].items()
    }
    peer = ranx.evaluate(
        ranx.Qrels(qrels), ranx.Run(notebook_values["run"]), ["ndcg@10", "map@10", "recall@10"]
    )
    ours = evaluate(
        ranx.Run(notebook_values["run"]), ranx.Qrels(qrels), *(f"ranx:{name}" for name in peer)
    )
    for name, value in peer.items():
        assert ours[f"ranx:{name}"].value == pytest.approx(value, rel=1e-12)


@pytest.mark.nightly
def test_pytrec_eval_has_these_values(notebook_values: dict[str, Any]) -> None:
    pytrec_eval = pytest.importorskip("pytrec_eval")
    qrels = {
        query: {d: int(r) for d, r in of.items()} for query, of in notebook_values["qrels"].items()
    }
    requested = {"map_cut_10": "trec:map_cut_10", "ndcg_cut_10": "trec:ndcg_cut_10"}
    peer = pytrec_eval.RelevanceEvaluator(qrels, set(requested)).evaluate(notebook_values["run"])
    ours = evaluate(notebook_values["run"], qrels, *requested.values(), ties="id_desc").values()
    for name, column in zip(requested, list(ours)[1:], strict=True):
        values = dict(zip(ours["user"], ours[column], strict=True))
        for query, of_query in peer.items():
            assert values[query] == pytest.approx(of_query[name], rel=1e-6)


@pytest.mark.nightly
def test_rectools_has_these_values(notebook_values: dict[str, Any]) -> None:
    metrics = pytest.importorskip("rectools.metrics")
    frames = pytest.importorskip("pandas")
    rows = [
        (query, document, rank)
        for query, of in notebook_values["run"].items()
        for rank, document in enumerate(of, 1)
    ]
    reco = frames.DataFrame(rows, columns=["user_id", "item_id", "rank"])
    truth = [(query, document) for query, of in notebook_values["qrels"].items() for document in of]
    interactions = frames.DataFrame(truth, columns=["user_id", "item_id"])
    requested = {
        "MAP@10": metrics.MAP(10),
        "NDCG@10": metrics.NDCG(10),
        "Recall@10": metrics.Recall(10),
    }
    peer = metrics.calc_metrics(requested, reco, interactions)
    ours = evaluate(
        reco, interactions, *(f"rectools:{name}" for name in requested), columns={"rank": "rank"}
    )
    for name in requested:
        assert ours[f"rectools:{name}"].value == pytest.approx(peer[name], rel=1e-12)
