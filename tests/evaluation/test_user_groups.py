"""Values of recommendations and truth by groups of users: `by=`, and the table `users=`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from streameval import Evaluation, evaluate, gap
from streameval.events.errors import UsageError
from tests.cli.program import from_csv, from_json

METRICS = ("ndcg@3", "mrr", "recall@2")


class World(NamedTuple):
    """Rows of 40 users, of whom some are in one table only, and their groups."""

    ranked: pd.DataFrame
    truth: pd.DataFrame
    users: pd.DataFrame


@pytest.fixture(scope="module")
def world() -> World:
    draw = np.random.default_rng(11)
    users = pd.DataFrame({"user": range(40), "plan": draw.choice(["free", "paid"], 40)})
    users["age"] = users["user"] % 3
    ranked = pd.DataFrame({"user": np.repeat(range(36), 4), "item": np.tile(range(4), 36)})
    ranked["score"] = draw.permutation(len(ranked)) / 10
    truth = pd.DataFrame({"user": range(4, 40), "item": draw.integers(0, 5, 36)})
    return World(ranked, truth, users)


def _files(folder: Path, world: World) -> Mapping[str, Any]:
    for name, frame in world._asdict().items():
        frame.to_csv(folder / f"{name}.csv", index=False)
        frame.to_parquet(folder / f"{name}.parquet")
    names = World._fields
    return {
        "csv": [folder / f"{name}.csv" for name in names],
        "parquet": [folder / f"{name}.parquet" for name in names],
    }


def _forms(folder: Path, world: World, names: list[str]) -> Mapping[str, Any]:
    """Recommendations, truth and the table of users, None if a column of the others has labels."""
    ranked, truth, users = world
    scores = {user: dict(zip(of["item"], of["score"], strict=True)) for user, of in by_user(ranked)}
    labelled = [rows.merge(users[["user", *names]]) for rows in (ranked, truth)]
    return {
        **_files(folder, world),
        "columns of both": (*labelled, None),
        "Polars": [pl.from_pandas(frame) for frame in world],
        "Arrow": [pa.Table.from_pandas(frame) for frame in world],
        "mappings": (
            scores,
            {user: list(of["item"]) for user, of in by_user(truth)},
            {row["user"]: row for row in users.to_dict("records")},
        ),
        "text beside integers": (ranked, truth.astype({"user": str}), users.astype({"user": str})),
    }


def by_user(rows: pd.DataFrame) -> Any:
    return rows.groupby("user")


@pytest.mark.filterwarnings("ignore:users in both files")
@pytest.mark.parametrize("by", ["plan", "age", ("plan", "age")])
def test_a_group_has_the_values_of_its_users_alone(
    tmp_path: Path, world: World, by: str | tuple[str, ...]
) -> None:
    """In every form, with the bits of an evaluation of these users."""
    names = [by] if isinstance(by, str) else list(by)
    expected = {}
    for key, users in world.users.groupby(names):
        alone = [rows[rows["user"].isin(users["user"])] for rows in (world.ranked, world.truth)]
        evaluation = evaluate(*alone, METRICS)
        expected[tuple(map(str, key))] = {text: evaluation[text] for text in METRICS}
    for form, (ranked, truth, users) in _forms(tmp_path, world, names).items():
        evaluation = evaluate(ranked, truth, METRICS, by=by, users=users)
        for key, readings in expected.items():
            labels = dict(zip(names, key, strict=True))
            assert evaluation.slice(**labels) == readings, (form, key)
        assert len(evaluation) == len(expected) * len(METRICS), form


@pytest.mark.filterwarnings("ignore:users in both files")
def test_commands_take_a_table_of_users(tmp_path: Path, world: World) -> None:
    ranked, truth, users = _files(tmp_path, world)["csv"]
    files = ("--recommendations", ranked, "--truth", truth, "--users", users)
    evaluation = evaluate(*world[:2], "mrr", by="plan", users=world.users)
    rows = from_csv("evaluate", *files, "--by", "plan", "-m", "mrr")
    assert {row["plan"]: float(row["value"]) for row in rows} == {
        name: evaluation.slice(plan=name)["mrr"].value for name in ("free", "paid")
    }
    apart = {name: evaluation.accumulator(plan=name) for name in ("free", "paid")}
    (row,) = from_json("gaps", *files, "--by", "plan", "-m", "mrr")["gaps"]
    assert row["difference"] == gap(apart, "mrr").difference


def test_lists_and_matrices_take_a_label_for_each_user() -> None:
    scores, truth, plans = np.array([[0.1, 0.2], [0.4, 0.3]]), [[0], [0]], ["paid", "free"]
    ragged = np.array([1, 0, 0]), np.array([0, 2, 3])
    for inputs in (scores, [[1, 0], [0]], np.array([[1, 0], [0, 1]]), ragged):
        evaluation = evaluate(inputs, truth, "mrr", by="plan", users=plans)
        assert values(evaluation) == {"paid": 0.5, "free": 1.0}
    with pytest.raises(UsageError, match="give the labels of lists as users="):
        evaluate(scores, truth, "mrr", by="plan")
    with pytest.raises(UsageError, match="found 1 labels for 2 lists"):
        evaluate(scores, truth, "mrr", by="plan", users=["paid"])


def values(found: Evaluation) -> dict[str, float]:
    frame = found.to_frame("pyarrow")
    return dict(zip(frame["plan"].to_pylist(), frame["value"].to_pylist(), strict=True))


def test_users_without_a_label_are_a_group_and_said() -> None:
    ranked, truth = {1: ["a"], 2: ["b"], 3: ["c"]}, {1: ["a"], 2: ["a"], 3: ["c"]}
    with pytest.warns(
        match="users without a value of 'plan': 1 of 3, which are a separate group, __missing__"
    ):
        evaluation = evaluate(ranked, truth, "mrr", by="plan", users={1: "x", 2: "x"})
    assert values(evaluation) == {"x": 0.5, "__missing__": 1.0}


def test_the_table_of_users_decides_alone() -> None:
    """Also where a column of the others says otherwise, or has two values for a user."""
    ranked = pd.DataFrame({"user": [1, 1, 2], "item": ["a", "b", "c"], "plan": ["x", "y", "x"]})
    evaluation = evaluate(
        ranked, {1: ["b"], 2: ["c"]}, "mrr", by="plan", users={1: "new", 2: "old"}
    )
    assert values(evaluation) == {"new": 0.5, "old": 1.0}


def test_a_number_that_is_a_label_is_no_score() -> None:
    ranked = pd.DataFrame({"user": [1, 1, 2], "item": ["a", "b", "c"], "plan": [7, 7, 9]})
    evaluation = evaluate(ranked, {1: ["b"], 2: ["c"]}, "mrr", by="plan")
    assert values(evaluation) == {"7": 0.5, "9": 1.0}


def test_labels_of_lists_in_cells_are_of_the_rows(tmp_path: Path) -> None:
    """Also of an empty list, and under another name."""
    path = tmp_path / "shown.inter"
    path.write_text("user:token\titem_seq:token_seq\tgroup:token\n1\ta|b\tx\n2\t\ty\n")
    columns = {"plan": "group", "recommendations.item": "item_seq"}
    with pytest.warns(match="read as lists"):
        evaluation = evaluate(path, {"1": ["b"], "2": ["c"]}, "mrr", by="plan", columns=columns)
    assert values(evaluation) == {"x": 0.5, "y": 0.0}


@pytest.mark.parametrize(
    ("users", "other", "expected"),
    [
        ([7, 8], ["7", "8"], [7, 8]),
        (["7", "8"], [8, 7], [7, 8]),
        (["07", "8"], [8, 7], ["07", "8", "7"]),
        ([7, 8], ["7", "x"], ["7", "8", "x"]),
        (["7", "8"], ["7", "8"], ["7", "8"]),
    ],
)
@pytest.mark.filterwarnings("ignore:users in both files")
def test_ids_of_users_keep_their_type_where_both_sides_can(
    users: list[Any], other: list[Any], expected: list[Any]
) -> None:
    impressions, liked = (pd.DataFrame({"user": of, "item": ["a", "b"]}) for of in (users, other))
    for library in ("pandas", "polars"):
        assert list(evaluate(impressions, liked, "mrr").values("user", library)["user"]) == expected


def test_integers_of_users_stay_such_beside_an_unknown_one() -> None:
    lists = [["a"], ["b"], ["c"]]
    user = pd.array([1, None, 2], dtype="Int64")
    events = pd.DataFrame({"recommendations": lists, "interactions": lists, "user": user})
    evaluation = evaluate(events, "mrr").values("user", "pandas")["user"]
    assert (str(evaluation.dtype), evaluation.dropna().tolist()) == ("Int64", [1, 2])
