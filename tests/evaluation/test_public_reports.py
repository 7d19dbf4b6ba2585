"""What people reported of other packages and data sets, with the right value of each."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest

from streameval import evaluate
from streameval.events.errors import StreamevalError

_RANKED = {"u": {"a": 0.9, "b": 0.5}, "v": {"c": 0.7}}
_TRUTH = {"u": ["b"], "v": ["c"]}


def _frame(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame(columns)


def _exponential(order: int) -> Any:
    """60 documents with the labels 0 to 59, the best one first or last."""
    scores = {f"d{label}": order * float(label) for label in range(60)}
    return {"q": scores}, {"q": {f"d{label}": label for label in range(60)}}


_KINDS = pl.DataFrame({"user": ["u", "u", "v"], "item": ["a", "b", "c"], "score": [0.9, 0.5, 0.7]})

VALUES: dict[str, tuple[Any, Any, str, float]] = {
    "a suffix of repeats that is an id (mlflow 25965)": (
        {"q": ["a", "a", "z"]},
        {"q": ["a_bc574ae_2"]},
        "recall@3",
        0.0,
    ),
    "repeats in list and truth (llama_index 22683)": (
        {"q": ["a", "a", "b"]},
        {"q": ["a", "a"]},
        "recall@3",
        1.0,
    ),
    "one document (LightGBM 6823)": ({"q": {"d": 0.1}}, {"q": {"d": 1}}, "ndcg@5", 1.0),
    "labels 0 to 59 in the best order (xgboost 6707)": (
        *_exponential(1),
        "ndcg(gain=exp2)@60",
        1.0,
    ),
    "a gain of hardly more than 1 (LightGBM 6633)": (
        {"q": ["x", "a", "b"]},
        {"q": {"a": 1.0, "b": 1 + 1e-10}},
        "ndcg@5",
        0.6934264036,
    ),
    "10 of 12 relevant (rated-ranking-evaluator 71)": (
        {"q": [f"d{n}" for n in range(10)]},
        {"q": [f"d{n}" for n in range(12)]},
        "ndcg@10",
        1.0,
    ),
    "labels below 0 (scikit-learn 17639, lkpy 1065)": (
        {"q": ["a", "b", "c"]},
        {"q": {"a": -2.0, "b": 0.0, "c": 1.0}},
        "ndcg@3",
        0.5,
    ),
    "the least relevant label (trec_eval 35)": (
        {"q": ["a", "b"]},
        {"q": {"a": 1, "b": 2}},
        "map(min_gain=2)",
        0.5,
    ),
    "returns as values below 0 (GrowthBook 4818)": (
        {"u": ["a"], "v": ["a"], "w": ["a"]},
        {"u": {"a": 50.0}, "v": {"a": -80.0}, "w": {"a": 900.0}},
        "value_per_list(cap=100)",
        70 / 3,
    ),
    "the truth as the run (spark-ranking-metrics 2)": (_TRUTH, _TRUTH, "map", 1.0),
    "ids with leading zeros (classifai 21)": (
        {"007": ["0010"], "7": ["10"]},
        {"007": ["0010"], "7": ["0010"]},
        "hit_rate",
        0.5,
    ),
    "categories in a list (polars 23950)": (
        _KINDS.with_columns(pl.col("user", "item").cast(pl.Categorical)),
        _TRUTH,
        "mrr",
        0.75,
    ),
    "an enum (polars 16916)": (
        _KINDS.with_columns(pl.col("item").cast(pl.Enum(["c", "b", "a", "unused"]))),
        _TRUTH,
        "mrr",
        0.75,
    ),
    "19 digits as integers (pandas 48170)": (
        _frame(user=[1], item=[9007199254740993123]),
        _frame(user=[1], item=[9007199254740993122]),
        "hit_rate",
        0.0,
    ),
}


@pytest.mark.filterwarnings("ignore::streameval.events.errors.SuspiciousEventsWarning")
@pytest.mark.parametrize("report", VALUES)
def test_what_was_reported_has_the_right_value(report: str) -> None:
    ranked, truth, metric, expected = VALUES[report]
    evaluation = evaluate(ranked, truth, metric)[metric].value
    assert evaluation == pytest.approx(expected, rel=1e-9, abs=0)


def test_the_worst_order_of_labels_0_to_59_is_not_best() -> None:
    ranked, truth = _exponential(-1)
    evaluation = evaluate(ranked, truth, "ndcg(gain=exp2)@10")["ndcg(gain=exp2)@10"]
    assert 0 < evaluation.value < 1e-14


def test_cutoffs_in_any_order_have_their_own_values() -> None:
    """LightGBM 2205."""
    ranked, truth = _exponential(1)
    texts = ["ndcg@5", "ndcg@1", "ndcg@3"]
    evaluation, alone = (
        evaluate(ranked, truth, texts),
        [evaluate(ranked, truth, text) for text in texts],
    )
    assert [evaluation[text] for text in texts] == [
        one[text] for one, text in zip(alone, texts, strict=True)
    ]


FILES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "Last.fm 360K: quotes are text in a file of tabs": (
        "truth.tsv",
        'user\titem\nu\tb\nu\t"Foo" Fighters\nv\tc\nv\t7" single\n',
        {},
    ),
    "Book-Crossing: semicolons and quotes": (
        "truth.csv",
        '"User-ID";"ISBN";"Book-Rating"\n"u";"b";"5"\n"v";"c";"4"\n',
        {"columns": {"truth.item": "ISBN", "rating": "Book-Rating"}},
    ),
    "MovieLens 1M": (
        "ratings.dat",
        "u::b::5::978300760\nv::c::4::978302109\n",
        {"delimiter": "::", "header": ["user", "item", "rating", "time"]},
    ),
    "MovieLens 100k": (
        "u.data",
        "u\tb\t5\t881250949\nv\tc\t3\t891717742\n",
        {"header": ["user", "item", "rating", "time"]},
    ),
    "Steam-200k: a comma in a quoted title, no header": (
        "steam.csv",
        'u,b,play,27.0,0\nv,c,purchase,1.0,0\nv,"The Elder, V",play,2.5,0\n',
        {"header": ["user", "item", "behavior", "rating", "zero"]},
    ),
    "Amazon 2023, JSON lines": (
        "reviews.jsonl",
        "".join(
            json.dumps({"rating": 5.0, "asin": "x", "parent_asin": item, "user_id": user}) + "\n"
            for user, item in (("u", "b"), ("v", "c"))
        ),
        {},
    ),
}


@pytest.mark.parametrize("layout", FILES)
def test_a_file_is_read_with_all_of_its_rows(layout: str, tmp_path: Path) -> None:
    name, text, options = FILES[layout]
    (tmp_path / name).write_text(text)
    assert evaluate(_RANKED, tmp_path / name, "mrr", **options)["mrr"].value == 0.75


REFUSED: dict[str, tuple[Callable[[Path], Any], str]] = {
    "latin-1 (Merlin 249)": (
        lambda path: path.write_bytes("user,item\nu,caf\xe9\n".encode("latin-1")),
        "line 2: byte 0xe9 is not UTF-8",
    ),
    "a decimal comma": (
        lambda path: path.write_text('user,item,rating\nu,b,"4,5"\n'),
        "line 2, column 'rating': found '4,5', which is not a finite number",
    ),
    "an infinite rating": (
        lambda path: path.write_text("user,item,rating\nu,b,-inf\n"),
        "line 2, column 'rating': found '-inf', which is not a finite number",
    ),
    "a column twice": (
        lambda path: path.write_text("user,item,item\nu,b,c\n"),
        "2 columns 'item'",
    ),
}


@pytest.mark.parametrize("layout", REFUSED)
def test_a_file_that_cannot_be_read_is_refused_where_it_is_wrong(
    layout: str, tmp_path: Path
) -> None:
    write, said = REFUSED[layout]
    write(tmp_path / "truth.csv")
    with pytest.raises(StreamevalError) as raised:
        evaluate(_RANKED, tmp_path / "truth.csv", "mrr")
    assert said in str(raised.value)
