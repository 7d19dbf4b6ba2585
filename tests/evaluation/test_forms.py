"""Each form that people have, as a small file of its own, with values by hand."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from streameval import evaluate
from streameval.events.errors import SuspiciousEventsWarning, UsageError
from tests.cli.program import run

LISTS = pd.DataFrame({"user": ["u", "u", "v"], "item": ["a", "b", "c"], "score": [0.9, 0.5, 0.7]})
TRUTH = pd.DataFrame({"user": ["u", "v"], "item": ["b", "c"]})
"""The interaction of u stands at rank 2, that of v at rank 1: the mean reciprocal rank is 0.75."""


def mrr(*given: Any, **options: Any) -> float:
    return evaluate(*given, "mrr", **options)["mrr"].value


def _stream(path: Path) -> Path:
    table = pa.Table.from_pandas(LISTS, preserve_index=False)
    with pa.ipc.new_stream(path, table.schema) as file:
        file.write_table(table)
    return path


def _written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def _feather(folder: Path) -> Path:
    pyarrow.feather.write_feather(LISTS, folder / "shown.feather")
    return folder / "shown.feather"


def _zipped_feather(folder: Path) -> Path:
    packed = folder / "shown.feather.gz"
    packed.write_bytes(gzip.compress(_feather(folder).read_bytes()))
    return packed


FILES: dict[str, Callable[[Path], Path]] = {
    "csv": lambda folder: _written(folder / "shown.csv", LISTS.to_csv(index=False)),
    "csv with an index": lambda folder: _written(folder / "shown.csv", LISTS.to_csv()),
    "tsv": lambda folder: _written(folder / "shown.tsv", LISTS.to_csv(index=False, sep="\t")),
    "semicolons": lambda folder: _written(folder / "shown.csv", LISTS.to_csv(index=False, sep=";")),
    "atomic file of RecBole": lambda folder: _written(
        folder / "shown.inter",
        "user_id:token\titem_id:token\tscore:float\nu\ta\t0.9\nu\tb\t0.5\nv\tc\t0.7\n",
    ),
    "feather": _feather,
    "feather in gzip": _zipped_feather,
    "arrow stream": lambda folder: _stream(folder / "shown.arrow"),
    "json lines of rows": lambda folder: _written(
        folder / "shown.jsonl", LISTS.to_json(orient="records", lines=True)
    ),
    "submission": lambda folder: _written(folder / "submission.csv", "user,items\nu,a|b\nv,c\n"),
}


@pytest.mark.filterwarnings("ignore::streameval.events.errors.SuspiciousEventsWarning")
@pytest.mark.parametrize("form", FILES)
def test_a_file_of_recommendations_is_read_by_its_name(tmp_path: Path, form: str) -> None:
    assert mrr(FILES[form](tmp_path), TRUTH) == 0.75


class Prediction(NamedTuple):
    """A row of Surprise."""

    uid: str
    iid: str
    r_ui: float
    est: float


def test_lists_and_dicts_of_other_packages_are_read() -> None:
    by_user = {"u": [("a", 0.9), ("b", 0.5)], "v": [("c", 0.7)]}
    assert mrr(by_user, TRUTH) == 0.75
    assert mrr({"u": ["a", "b"], "v": ["c"]}, {"u": {"b"}, "v": {"c"}}) == 0.75
    rows = [Prediction(user, item, 1.0, est) for user, item, est in LISTS.to_numpy().tolist()]
    with pytest.raises(UsageError, match=r"columns=\{'score': 'est'\}"):
        mrr(rows, TRUTH)
    assert mrr(rows, TRUTH, columns={"score": "est", "truth.user": "user"}) == 0.75


def test_frames_of_any_library_with_categories_are_read() -> None:
    polars = pl.from_pandas(LISTS).with_columns(pl.col("user", "item").cast(pl.Categorical))
    categories = LISTS.astype({"user": "category", "item": "category"})
    coded = pa.table({name: pa.array(LISTS[name]).dictionary_encode() for name in LISTS})
    for ranked in (polars, categories, coded, pl.from_pandas(LISTS)):
        assert mrr(ranked, TRUTH) == 0.75


def test_wide_frames_hold_lists() -> None:
    wide = LISTS.groupby("user").agg(recommendations=("item", list), scores=("score", list))
    assert mrr(wide.reset_index(), TRUTH) == 0.75
    assert mrr(pl.from_pandas(wide.reset_index()), TRUTH) == 0.75


def test_files_without_a_header_name_the_two_settings(tmp_path: Path) -> None:
    movielens = _written(tmp_path / "u.data", "1\t10\t5\t881250949\n2\t11\t3\t891717742\n")
    ranked = {"1": ["9", "10"], "2": ["11"]}
    with pytest.raises(UsageError) as raised:
        mrr(ranked, movielens)
    assert str(raised.value).endswith(
        "has numbers, not names of columns; name the columns with header='user,item,rating,time'."
    )
    names = ["user", "item", "rating", "timestamp"]
    assert mrr(ranked, movielens, header=names) == 0.75
    inches = _written(tmp_path / "inches.data", '1\t"9\t5\t7\n2\t11\t3\t8\n')
    assert mrr({"1": ['"9'], "2": ["11"]}, inches, header=names) == 1.0
    colons = _written(tmp_path / "ratings.dat", "1::10::5::978300760\n2::11::3::978302109\n")
    with pytest.raises(UsageError, match=r"with delimiter='::' and header="):
        mrr(ranked, colons)
    assert mrr(ranked, colons, delimiter="::", header=names) == 0.75
    yoochoose = _written(
        tmp_path / "clicks.dat",
        "1,2014-04-07T10:51:09.277Z,10,0\n2,2014-04-07T10:54:09.868Z,11,0\n",
    )
    columns = ["session", "time", "item", "category"]
    assert mrr(ranked, yoochoose, header=columns, columns={"rating": None}) == 0.75
    letters = _written(tmp_path / "letters.dat", "1::b::5\n2::d::3\n")
    with pytest.raises(UsageError, match=r"with delimiter='::' and header="):
        mrr(ranked, letters)


def test_a_header_is_for_the_files_that_have_none(tmp_path: Path) -> None:
    ranked = _written(tmp_path / "shown.csv", "user;item;score\n1;10;1\n1;9;2\n2;11;1\n")
    movielens = _written(tmp_path / "ratings.dat", "1::10::5::978300760\n2::11::3::978302109\n")
    names = ["user", "item", "rating", "time"]
    assert mrr(ranked, movielens, delimiter="::", header=names) == 0.75
    tabs = _written(tmp_path / "u.data", "1\t10\t5\t881250949\n2\t11\t3\t891717742\n")
    assert mrr(ranked, tabs, header=names) == 0.75


@pytest.mark.parametrize(
    ("chances", "invalid"),
    [(["0.5|0.25", ""], 0), (["low|high", ""], 1), (["0.5|low", ""], 1), (["", ""], 0)],
)
def test_a_blank_cell_has_no_value_of_any_item(
    tmp_path: Path, chances: list[str], invalid: int
) -> None:
    """Also where other cells have numbers, words or both; a word instead of a chance is invalid."""
    rows = [f"a|b,b,{cell},0.5|0.5\n" for cell in chances]
    path = _written(tmp_path / "log.csv", "".join(["recommendations,interactions,p,q\n", *rows]))
    columns = {"per_item.propensity": "p", "per_item.target": "q"}
    with pytest.warns(SuspiciousEventsWarning) if invalid else nullcontext():
        evaluation = evaluate(path, "ips", "hits", columns=columns)
    assert evaluation["ips"].count == (chances[0] == "0.5|0.25")
    assert evaluation["hits"].lists == len(rows) - invalid


@pytest.mark.parametrize("name", ["model.pkl", "scores.npz", "sheet.xlsx"])
def test_a_form_that_is_not_read_has_a_remedy(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"\x80\x04")
    with pytest.raises(UsageError, match=r"load it .*and give the frame"):
        mrr(path, TRUTH)


def test_empty_frames_are_no_error_of_types() -> None:
    nothing = pd.DataFrame({"user": [], "item": []})
    with pytest.raises(UsageError, match=r"truth= has no rows"):
        mrr(LISTS, nothing)


def test_large_files_are_read_in_blocks(tmp_path: Path) -> None:
    rows = 40_000
    text = "".join(f"i{n % 97}|i{n % 89},i{n % 89},u{n}\n" for n in range(rows))
    path = _written(tmp_path / "events.csv", f"recommendations,interactions,user\n{text}")
    assert path.stat().st_size > 500_000
    evaluation = evaluate(path, "hit_rate@2", "mrr", intervals=None)
    same = sum(n % 97 == n % 89 for n in range(rows))
    assert evaluation["hit_rate@2"].value == 1.0
    assert evaluation["mrr"].value == pytest.approx((rows + same) / (2 * rows), rel=1e-12)


def test_the_command_keeps_cells_as_ids_with_the_separator_that_it_names(tmp_path: Path) -> None:
    ranked = _written(tmp_path / "submission.csv", "customer_id,prediction\nc,07 08\n")
    truth = _written(tmp_path / "truth.csv", "customer_id,item\nc,08\n")
    named = ("--column", "recommendations.item=prediction", "-m", "mrr", "--format", "json")
    call = ("evaluate", "--recommendations", ranked, "--truth", truth, *named)
    split = run(*call)
    assert json.loads(split.stdout)[0]["value"] == 0.5
    assert "with --separator prediction= each is one id." in split.stderr
    total = run(*call, "--separator", "prediction=")
    assert json.loads(total.stdout)[0]["value"] == 0.0


def test_commands_take_the_same_settings(tmp_path: Path) -> None:
    truth = _written(tmp_path / "u.data", "1\t10\t5\t881250949\n2\t11\t3\t891717742\n")
    ranked = _written(tmp_path / "shown.csv", "user,item\n1,9\n1,10\n2,11\n")
    other = _written(tmp_path / "other.csv", "user,item\n1,10\n2,11\n")
    header = ("--header", "user,item,rating,time")
    with_header = _written(tmp_path / "shown.tsv", "1\t9\t2\t0\n1\t10\t1\t0\n2\t11\t1\t0\n")
    both = ("--recommendations", with_header, "--truth", truth, *header)
    named = ("--column", "score=rating", "--column", "rating=rating")
    done = run("evaluate", *both, *named, "-m", "mrr", "--format", "json")
    assert json.loads(done.stdout)[0]["value"] == 0.75, done.stderr
    refused = run("compare", "--recommendations", ranked, "--recommendations", other, "--truth",
                  truth, "-m", "mrr")  # fmt: skip
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "--header" in refused.stderr


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_row_groups_and_files_are_one_table(tmp_path: Path, form: str) -> None:
    ranked = pd.DataFrame({"user": [*range(9)] * 4, "item": range(36), "score": np.arange(36) % 7})
    truth = pd.DataFrame({"user": range(9), "item": range(9, 18)})
    folder = tmp_path / "shown"
    folder.mkdir()
    if form == "parquet":
        pq.write_table(pa.Table.from_pandas(ranked), folder / "a.parquet", row_group_size=7)
    else:
        ranked[:20].to_csv(folder / "a.csv", index=False)
        ranked[20:].to_csv(folder / "b.csv", index=False)
    assert mrr(folder, truth.astype(str)) == mrr(ranked, truth)
