"""`streameval.evaluate`: every form of the same data has the same values, bit for bit."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import streameval
from streameval import Accumulator, Columns, Evaluation, Event, compare, evaluate, metric_at
from streameval.evaluation.arguments import NoEventsError
from streameval.events.errors import (
    MetricError,
    StreamevalError,
    SuspiciousEventsWarning,
    UsageError,
)
from streameval.metrics.hit_rate import hit_rate
from tests.cli.program import json_lines, run
from tests.columnar.given import Tensor

METRICS = ("ndcg@3", "mrr", "recall@2", "map@3", "ctr@2")
USERS, ITEMS = 30, 12


class Data(NamedTuple):
    """The same recommendations and truth as scores and as long frames."""

    scores: np.ndarray[Any, Any]
    gains: np.ndarray[Any, Any]
    ranked: pd.DataFrame
    truth: pd.DataFrame


@pytest.fixture(scope="module")
def data() -> Data:
    draw = np.random.default_rng(7)
    scores = draw.permutation(USERS * ITEMS).reshape(USERS, ITEMS) / 100.0
    gains = np.where(draw.random((USERS, ITEMS)) < 0.2, draw.integers(1, 5, (USERS, ITEMS)), 0)
    gains[np.arange(USERS), draw.integers(ITEMS, size=USERS)] = 1  # Every user has a truth.
    ranked = [(user, item, scores[user, item]) for user in range(USERS) for item in range(ITEMS)]
    owners, items = np.nonzero(gains)
    truth = {"user": owners, "item": items, "rating": gains[owners, items]}
    shuffled = pd.DataFrame(ranked, columns=["user", "item", "score"]).sample(
        frac=1, random_state=1
    )
    return Data(scores, gains, shuffled, pd.DataFrame(truth))


def values(readings: Mapping[str, Any]) -> dict[str, float]:
    return {text: reading.value for text, reading in readings.items()}


def test_a_frame_of_events_has_the_values_and_warnings_of_the_command(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "recommendations": [["a", "b"], ["c", "d"], ["a", "d"]] * 20,
            "interactions": [["b"], [], ["d"], ["a"], ["c"], []] * 10,
            "variant": ["x", "y", "x"] * 20,
            "users": [f"u{n}" for n in range(60)],
        }
    )
    frame.to_parquet(tmp_path / "events.parquet")
    call = ("evaluate", tmp_path / "events.parquet", "-m", "mrr", "-m", "ctr", "--by", "variant")
    output = json.loads(run(*call, "--format", "json").stdout)
    evaluation = evaluate(frame, "mrr", "ctr", by="variant")
    assert {row["metric"] + row["labels"]["variant"]: row["value"] for row in output} == {
        f"{metric}{name}": evaluation.slice(variant=name)[metric].value
        for metric in ("mrr", "ctr")
        for name in "xy"
    }
    assert evaluation['mrr{variant="x"}'].interval is not None
    assert evaluation.accumulator(variant="y").lists == 20
    with pytest.raises(UsageError, match="name a value of each of variant"):
        evaluation.accumulator(variant="y", planet="mars")
    assert list(evaluation.to_frame()["users"]) == [40.0, 20.0, 40.0, 20.0]
    assert evaluation.values()["user"].tolist() == frame["users"].tolist()


def test_a_label_called_as_a_column_has_a_column_of_its_own() -> None:
    lists = {"recommendations": [["a"], ["b"]], "interactions": [["a"], ["a"]]}
    evaluation = evaluate(pd.DataFrame({**lists, "lists": ["x", "y"]}), "mrr", by=["lists"])
    frame = evaluation.to_frame("pandas")
    assert (
        frame["label_lists"].tolist() == evaluation.values()["label_lists"].tolist() == ["x", "y"]
    )
    assert frame["lists"].tolist() == [1, 1]
    assert [line.split()[:3] for line in repr(evaluation).splitlines()] == [
        ["label_lists", "metric", "value"],
        ["x", "mrr", "1.0000"],
        ["y", "mrr", "0.0000"],
    ]


@pytest.mark.parametrize("column", ["user", "users"])
def test_users_are_read_by_either_usual_name(column: str, tmp_path: Path) -> None:
    rows = [
        {"recommendations": ["a", "b"], "interactions": ["b"], column: f"u{number % 9}"}
        for number in range(40)
    ]
    path = tmp_path / "events.ndjson"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    for events in (str(path), pd.DataFrame(rows), pl.DataFrame(rows), pa.Table.from_pylist(rows)):
        assert list(evaluate(events, "mrr").to_frame("pandas")["users"]) == [9.0]


def test_users_are_read_as_named_even_beside_the_usual_name(tmp_path: Path) -> None:
    row = {"recommendations": ["a"], "interactions": ["a"], "users": "u", "member": "m"}
    path = tmp_path / "events.ndjson"
    path.write_text("".join(f"{json.dumps(row | {'member': f'm{n % 3}'})}\n" for n in range(9)))
    assert list(
        evaluate(str(path), "mrr", columns={"user": "member"}).to_frame("pandas")["users"]
    ) == [3.0]


def test_json_lines_are_counted_as_by_the_command(tmp_path: Path) -> None:
    path = tmp_path / "events.ndjson"
    rows = [
        {
            "recommendations": ["a", "b"],
            "interactions": ["b"][: n % 2],
            "user": f"u{n % 7}",
            "t": 1_700_000_000 + n,
        }
        for n in range(40)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    output = json.loads(run("evaluate", path, "-m", "mrr", "--format", "json").stdout)
    evaluation = evaluate(path, "mrr")
    assert evaluation["mrr"].value == output[0]["value"] == 0.25
    assert evaluation.to_frame()["users"].tolist() == [7.0]
    assert evaluation.values()["mrr"].tolist() == [0.0, 0.5] * 20
    spans = evaluate(path, "mrr", every="10s", columns={"time": "t"}, time_unit="s")
    assert spans.to_frame()["start"].nunique() == len(spans) == 4
    assert spans.values("user").shape == (28, 3)


def test_lists_with_their_truth_are_users_in_order() -> None:
    evaluation = evaluate([["a", "b"], ["c"], []], [["b"], ["x"], []], "mrr", "hit_rate@1")
    assert values(evaluation) == {"mrr": 1 / 6, "hit_rate@1": 0.0}
    assert evaluation.values()["user"].tolist() == [0, 1, 2]
    arrays = evaluate(np.array([[1, 2], [3, -1]]), np.array([2, 3]), "mrr")
    assert arrays["mrr"].value == 0.75


def test_events_and_columns_need_no_truth() -> None:
    event = Event(recommendations=["a", "b"], interactions=["b"])
    assert evaluate([event], "mrr")["mrr"].value == 0.5
    assert evaluate([(["a", "b"], ["b"])], None, "mrr")["mrr"].value == 0.5
    columns = Columns(recommendations=np.array([[1, 2]]), interactions=np.array([2]))
    assert evaluate(columns, "mrr")["mrr"].value == 0.5


def test_users_without_items_count_in_every_form() -> None:
    ranked, truth = {"u1": ["a"], "u2": []}, {"u1": ["a"], "u2": [], "u3": ["b"]}
    wide = pd.DataFrame({"user": list(ranked), "recommendations": list(ranked.values())})
    for inputs in (ranked, wide):
        with pytest.warns(SuspiciousEventsWarning, match="without recommendations: 1"):
            evaluation = evaluate(inputs, truth, "hit_rate")
        assert (evaluation["hit_rate"].value, evaluation["hit_rate"].lists) == (1 / 3, 3)


def test_warnings_name_arguments_and_the_line_that_called() -> None:
    ranked = pd.DataFrame({"user": [1, 1], "item": [5, 5], "score": [0.9, 0.1]})
    with pytest.warns(SuspiciousEventsWarning, match="repeat an item") as caught:
        evaluate(ranked, pd.DataFrame({"user": [1], "item": [5]}), "mrr")
    assert caught[0].filename == __file__


def test_without_events_there_is_no_value(tmp_path: Path) -> None:
    (tmp_path / "events.ndjson").write_text("\n")
    with pytest.raises(NoEventsError):
        evaluate(tmp_path / "events.ndjson", "mrr")
    nothing = pd.DataFrame({"user": [], "item": []}, dtype=str)
    with pytest.raises(NoEventsError):
        evaluate(nothing, nothing, "mrr")


class TestScores:
    @pytest.mark.parametrize("kind", [np.float64, np.float32])
    def test_a_matrix_has_the_values_of_its_rows(self, data: Data, kind: Any) -> None:
        expected = values(evaluate(data.ranked, data.truth, *METRICS))
        assert values(evaluate(data.scores.astype(kind), data.gains, *METRICS)) == expected
        assert len(set(expected.values())) > 3

    def test_seen_items_are_left_out(self, data: Data) -> None:
        seen = data.gains > 2
        by_hand = np.where(seen, -np.inf, data.scores)
        expected = values(evaluate(by_hand, data.gains, *METRICS))
        evaluation = evaluate(data.scores, data.gains, *METRICS, exclude=seen)
        assert values(evaluation) == expected
        items = [np.flatnonzero(row) for row in seen]
        assert values(evaluate(data.scores, data.gains, *METRICS, exclude=items)) == expected

    def test_truth_may_be_lists_or_a_target_for_each_user(self, data: Data) -> None:
        marks = (data.gains > 0).astype(int)
        entries = [np.flatnonzero(row).tolist() for row in marks]
        by_lists = values(evaluate(data.scores, entries, *METRICS))
        assert by_lists == values(evaluate(data.scores, marks, *METRICS))
        targets = data.scores.argmin(axis=1)
        assert evaluate(data.scores, targets, "mrr")["mrr"].value == pytest.approx(1 / ITEMS)

    def test_parts_of_the_users_have_the_value_of_all(
        self, data: Data, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        total = values(evaluate(data.scores, data.gains, *METRICS))
        monkeypatch.setattr("streameval.evaluation.score_matrix._ENTRIES", 5 * ITEMS)
        assert values(evaluate(data.scores, data.gains, *METRICS)) == total

    def test_any_library_of_arrays_may_bring_them(self, data: Data) -> None:
        expected = values(evaluate(data.scores, data.gains, *METRICS))
        for device in (1, 2):
            scores, gains = Tensor(data.scores, device), Tensor(data.gains, device)
            assert values(evaluate(scores, gains, *METRICS)) == expected

    @pytest.mark.nightly
    @pytest.mark.parametrize("kind", ["float64", "float32", "with gradients"])
    def test_a_tensor_has_the_values_of_the_matrix(self, data: Data, kind: str) -> None:
        torch = pytest.importorskip("torch")
        scores = torch.tensor(data.scores, dtype=torch.float32 if kind == "float32" else None)
        scores.requires_grad_(kind == "with gradients")
        seen = data.gains == 1
        for truth in (torch.tensor(data.gains), data.gains):
            assert values(evaluate(scores, truth, *METRICS)) == values(
                evaluate(data.scores, data.gains, *METRICS)
            )
        evaluation = evaluate(
            scores, torch.tensor(data.gains), *METRICS, exclude=torch.tensor(seen)
        )
        assert values(evaluation) == values(
            evaluate(data.scores, data.gains, *METRICS, exclude=seen)
        )

    @pytest.mark.nightly
    def test_equal_scores_of_a_tensor_rank_the_smaller_item_first(self) -> None:
        torch = pytest.importorskip("torch")
        scores = torch.tensor([[1.0, 2.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0]])
        result = []
        for kind in (scores, scores.numpy()):
            with pytest.warns(SuspiciousEventsWarning, match="whose scores are all equal: 1;"):
                result.append(evaluate(kind, [[2], [1]], "hit_rate@2", "hit_rate@3", "mrr@3"))
        assert values(result[0]) == values(result[1])
        with pytest.raises(StreamevalError, match="row 1 of the scores has a NaN"):
            evaluate(torch.tensor([[1.0, 2.0], [float("nan"), 1.0]]), [[0], [0]], "mrr")

    def test_auc_reads_the_scores(self, data: Data) -> None:
        area = evaluate(data.scores, data.gains > 0, "auc")["auc"].value
        by_hand = Accumulator("auc")
        for scores, gains in zip(data.scores, data.gains, strict=True):
            order = np.argsort(-scores)
            ranked, clicks = order.tolist(), np.flatnonzero(gains).tolist()
            by_hand.update(ranked, clicks, scores=scores[order].tolist())
        assert area == by_hand.read("auc").value


class TestEvaluation:
    @pytest.fixture
    def evaluation(self, data: Data) -> Evaluation:
        return evaluate(data.ranked, data.truth, *METRICS)

    def test_it_is_a_mapping_of_readings_by_any_spelling(self, evaluation: Evaluation) -> None:
        assert list(evaluation) == list(METRICS)
        assert evaluation["ctr@2"].total is not None
        assert evaluation["reciprocal_rank"] == evaluation["mrr"]
        with pytest.raises(KeyError, match="not evaluated; there is ndcg@3"):
            _ = evaluation["ndcg@4"]

    def test_its_frame_has_bounds_lists_and_users(self, evaluation: Evaluation) -> None:
        frame = evaluation.to_frame()
        assert list(frame) == ["metric", "value", "low", "high", "count", "lists", "users"]
        assert (frame["lists"] == USERS).all()
        assert (frame["users"] == USERS).all()
        row = frame.set_index("metric").loc["mrr"]
        assert row["low"] < row["value"] < row["high"]
        assert type(evaluation.to_frame("polars")).__module__.startswith("polars")
        assert evaluation.to_frame("pyarrow").num_rows == len(METRICS)

    def test_a_slice_stands_beside_those_of_its_segments(self, tmp_path: Path) -> None:
        rows = [
            {"recommendations": ["a"], "interactions": ["a"][: n % 3], "arm": "xy"[n % 2], "by": n}
            for n in range(6)
        ]
        events, config = tmp_path / "events.ndjson", tmp_path / "streameval.toml"
        events.write_text("\n".join(map(json.dumps, rows)))
        config.write_text('metrics = ["ctr"]\nlabels = ["arm"]\nsegments = ["by"]\n')
        evaluation = evaluate(events, config=config)
        assert evaluation.slice(arm="x")["ctr"].count == 3
        assert evaluation.slice(arm="x", by="2")["ctr"].count == 1
        assert evaluation.slice(by="2") == evaluation.slice(arm="x", by="2")
        with pytest.raises(UsageError, match="not one slice"):
            evaluation.slice()

    def test_values_are_those_of_each_user_and_average_to_the_value(
        self, evaluation: Evaluation, data: Data
    ) -> None:
        frame = evaluation.values("user", "pandas").set_index("user")
        assert frame["mrr"].mean() == pytest.approx(evaluation["mrr"].value, rel=1e-12)
        of_one = (table[table["user"] == 3] for table in (data.ranked, data.truth))
        alone = evaluate(*of_one, "ndcg@3")
        assert frame.loc[3, "ndcg@3"] == alone["ndcg@3"].value

    def test_it_is_shown_as_text_html_and_latex(self, evaluation: Evaluation) -> None:
        assert repr(evaluation).splitlines()[0].split()[:2] == ["metric", "value"]
        assert "<td>recall@2</td>" in evaluation._repr_html_()
        assert evaluation.latex().count("\\\\") == len(METRICS) + 1
        assert (
            repr(Accumulator(["mrr", "ndcg@3"])) == "<Accumulator of 0 lists: mrr nan, ndcg@3 nan>"
        )

    def test_a_function_is_a_metric_and_inputs_are_objects(self, data: Data) -> None:
        requested = (metric_at(hit_rate, k=2), "item_coverage@2", "novelty@2", "hits")
        popularity = dict.fromkeys(range(ITEMS), 3)
        evaluation = evaluate(
            data.ranked, data.truth, *requested, catalog=range(ITEMS), popularity=popularity
        )
        assert evaluation["hit_rate@2"].value > 0
        assert evaluation["item_coverage@2"].value == 1.0
        half = evaluate(data.ranked, data.truth, "item_coverage@2", catalog=2 * ITEMS)
        assert half["item_coverage@2"].value == 0.5

    def test_metrics_of_all_lists_have_no_value_of_one(self, data: Data) -> None:
        evaluation = evaluate(data.ranked, data.truth, "distinct_items@2")
        with pytest.raises(MetricError, match="no value of a single list"):
            evaluation.values()


def test_the_module_finds_its_lazy_names_only() -> None:
    assert {"evaluate", "compare", "Evaluation", "ComparisonReport"} <= {*dir(streameval)}
    with pytest.raises(AttributeError, match="has no attribute 'evaluat'"):
        _ = streameval.evaluat
    with pytest.raises(UsageError):
        streameval.evaluate(5, "mrr")  # type: ignore[arg-type]  # mypy refuses it, too


def test_a_reading_says_where_peers_divide_by_more() -> None:
    truth = {"u": [f"i{index}" for index in range(20)]}
    readings = evaluate({"u": {"i0": 1.0}}, truth, "map@10", "ranx:map@10", "map")
    assert [readings[text].value for text in readings] == [0.1, 0.05, 0.05]
    note = readings["map@10"].note
    assert note is not None
    assert "min(k, relevant)" in note
    assert "`ranx:map@10`" in note
    assert [readings[text].note for text in ("ranx:map@10", "map")] == [None, None]


@pytest.mark.parametrize("column", ["recommendations", "item"])
@pytest.mark.parametrize("ids", [(20, 21), ("a", "b")])
def test_cells_of_items_with_scores_are_lists_by_score(column: str, ids: Sequence[Any]) -> None:
    low, high = ids
    ranked = pd.DataFrame({"user": [1, 2], column: [[(low, 0.7), (high, 0.8)], [(low, 0.7)]]})
    truth = pd.DataFrame({"user": [1, 2], "item": [high, high]})
    assert evaluate(ranked, truth, "mrr")["mrr"].value == 0.5


def test_options_of_files_are_for_any_file_among_the_runs(tmp_path: Path) -> None:
    path = tmp_path / "shown.csv"
    path.write_text("u~b\nu~a\n")
    named: dict[str, Any] = {"header": ["user", "item"], "delimiter": "~"}
    table = pd.DataFrame({"user": ["u"], "item": ["a"]})
    report = compare(table, str(path), "mrr", truth=table, **named)
    assert [(row.control, row.treatment) for row in report.values()] == [(1.0, 0.5)]
    with pytest.raises(UsageError, match=r"^form='trec' is for two files, the results and the"):
        evaluate(str(path), {"u": ["a"]}, "mrr", form="trec")


def test_json_lines_have_no_option_of_tables(tmp_path: Path) -> None:
    path = json_lines(tmp_path / "e.ndjson", [{"recommendations": ["a"], "interactions": ["a"]}])
    for option in ({"delimiter": ";"}, {"separator": ";"}, {"header": ["user"]}):
        (name,) = option
        with pytest.raises(UsageError, match=rf"^{name}= is for tables, not for JSON"):
            evaluate(path, "mrr", **option)
