"""What can be read in two ways is refused or said, whichever form it has; values by hand."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import streameval
from streameval import Columns, Event, evaluate
from streameval.evaluation.arguments import Note
from streameval.evaluation.shell.terminal import SURROUNDINGS
from streameval.events.errors import SourceError, SuspiciousEventsWarning, UsageError
from tests.cli.program import json_lines, readings, run


def rows(**columns: Sequence[Any]) -> pd.DataFrame:
    return pd.DataFrame(columns)


def value(*given: Any, metric: str, **options: Any) -> float:
    return evaluate(*given, metric, **options)[metric].value


def ndcg(gains: Sequence[float], ideal: Sequence[float]) -> float:
    return _dcg(gains) / _dcg(ideal)


def _dcg(gains: Sequence[float]) -> float:
    return sum(gain / math.log2(rank) for rank, gain in enumerate(gains, 2))


class TestGains:
    @pytest.mark.parametrize(
        "truth",
        [
            [{0: 1.0, 2: 3.0}],
            {0: {0: 1.0, 2: 3.0}},
            np.array([[1.0, 0.0, 3.0]]),
        ],
    )
    def test_a_truth_of_dicts_beside_scores_is_graded(self, truth: Any) -> None:
        scores = np.array([[0.3, 0.2, 0.1]])
        assert value(scores, truth, metric="ndcg@3") == ndcg([1, 0, 3], [3, 1])

    def test_a_column_of_numbers_is_named_on_either_side(self) -> None:
        lists = rows(user=[1, 1], item=[5, 6], score=[0.9, 0.1])
        truth = rows(user=[1, 1], item=[5, 6], stars=[1, 3])
        with pytest.raises(UsageError) as raised:
            value(lists, truth, metric="ndcg@2")
        assert str(raised.value) == (
            "truth: no column has a usual name of a rating, and 'stars' has numbers; if it is the "
            "gain of an interaction, give columns={'rating': 'stars'}; if every row counts alike, "
            "columns={'rating': None}."
        )
        named = {"rating": "stars"}
        assert value(lists, truth, metric="ndcg@2", columns=named) == ndcg([1, 3], [3, 1])
        assert value(lists, truth, metric="ndcg@2", columns={"rating": None}) == 1.0
        unscored = rows(user=[1, 1], item=[6, 5], est=[0.1, 0.9])
        with pytest.raises(UsageError):
            value(unscored, truth[["user", "item"]], metric="mrr")
        in_order = value(unscored, truth[["user", "item"]], metric="mrr", columns={"score": None})
        assert in_order == 1.0

    @pytest.mark.parametrize(
        "other",
        [
            {"timestamp": [881250949, 881250950]},
            {"at": [20, 21]},
            {"session_id": [7, 8]},
            {"__index_level_0__": [0, 1]},
            {"Unnamed: 0": [0, 1]},
            {"when": pd.to_datetime(["2026-01-01", "2026-01-02"])},
        ],
    )
    def test_times_ids_and_the_index_of_pandas_are_no_gains(self, other: Mapping[str, Any]) -> None:
        lists = rows(user=[1, 1], item=[5, 6], score=[0.9, 0.1])
        truth = pd.DataFrame({"user": [1, 1], "item": [5, 6], **other})
        assert value(lists, truth, metric="ndcg@2") == 1.0


class TestRanks:
    truth = rows(user=[1], item=[5])

    def test_a_rank_is_the_position_at_which_an_item_was_shown(self) -> None:
        lists = rows(user=[1, 1], item=[5, 6], rank=[3, 7])
        with pytest.warns(SuspiciousEventsWarning, match="ranks that skip some, like rank 3"):
            evaluation = evaluate(lists, self.truth, "mrr", "hit_rate@2", "hit_rate@3")
        values = {metric: reading.value for metric, reading in evaluation.items()}
        assert values == {"mrr": 1 / 3, "hit_rate@2": 0.0, "hit_rate@3": 1.0}

    def test_ranks_without_gaps_say_nothing(self) -> None:
        lists = rows(user=[1, 2, 1], item=[6, 5, 5], rank=[1, 1, 2])
        truth = rows(user=[1, 2], item=[5, 5])
        assert value(lists, truth, metric="mrr") == 0.75


class TestListsInCells:
    @pytest.mark.parametrize(
        "cell", ["20 21", "20,21", "20;21", "20|21", "[20, 21]", "['20', '21']", '["20","21"]']
    )
    @pytest.mark.parametrize("form", ["csv", "frame"])
    def test_a_cell_with_several_ids_is_a_list(self, tmp_path: Path, cell: str, form: str) -> None:
        lists: Any = rows(user=["u", "v"], item=[cell, cell.replace("2", "3")])
        truth: Any = rows(user=["u", "v"], item=["21", "30"])
        if form == "csv":
            lists.to_csv(tmp_path / "shown.csv", index=False)
            truth.to_csv(tmp_path / "truth.csv", index=False)
            lists, truth = tmp_path / "shown.csv", tmp_path / "truth.csv"
        with pytest.warns(SuspiciousEventsWarning, match="are read as lists of ids"):
            assert value(lists, truth, metric="mrr") == 0.75

    def test_a_separator_keeps_or_splits_cells(self) -> None:
        lists = rows(user=["u", "u"], item=["Heat", "Toy Story"])
        truth = rows(user=["u"], item=["Toy Story"])
        assert value(lists, truth, metric="mrr") == 0.5
        ids = rows(user=["u", "u"], item=["7 8", "9 10"])
        titles = rows(user=["u"], item=["9 10"])
        assert value(ids, titles, metric="mrr", separator="") == 0.5
        words = rows(user=["u"], item=["tea milk"])
        milk = rows(user=["u"], item=["milk"])
        assert value(words, milk, metric="mrr", separator=" ") == 0.5

    def test_what_a_mapping_lists_are_ids(self) -> None:
        assert value({"u": ["7 8", "a|b"]}, {"u": ["a|b"]}, metric="mrr") == 0.5
        assert value({"u": ["7 8"]}, {"u": ["7 8"]}, metric="mrr") == 1.0

    @pytest.mark.parametrize("form", ["parquet", "arrow"])
    def test_lists_of_structs_are_items_with_numbers(self, tmp_path: Path, form: str) -> None:
        recommended = [{"item": 5, "rating": 0.1}, {"item": 6, "rating": 0.9}]
        lists: Any = pa.table({"user": [1], "recommendations": [recommended]})
        if form == "parquet":
            pq.write_table(lists, tmp_path / "als.parquet")
            lists = tmp_path / "als.parquet"
        assert value(lists, {1: [5]}, metric="mrr") == 0.5

    def test_lists_and_their_numbers_have_one_length(self) -> None:
        lists = pa.table({"user": [1, 2], "item": [[5, 6], [7]], "score": [[0.1, 0.9], [1.0, 2.0]]})
        with pytest.raises(UsageError, match="row 2, column 'score': 2 numbers for 1 items"):
            value(lists, {1: [5]}, metric="mrr")

    def test_pairs_of_item_and_number_are_read_from_a_dict(self) -> None:
        assert value({1: [(5, 0.1), (6, 0.9)]}, {1: [5]}, metric="mrr") == 0.5
        assert value({1: [(5, 0.9)]}, {1: [(5, 1), (6, 3)]}, metric="ndcg@2") == ndcg([1], [3, 1])


class TestTies:
    lists = rows(user=[1, 1, 1], item=[5, 6, 7], score=[1.0, 1.0, 1.0])
    truth = rows(user=[1], item=[5])

    def test_equal_scores_that_decide_a_hit_are_said(self) -> None:
        with pytest.warns(SuspiciousEventsWarning, match="all scores are equal; lists .*: 1;"):
            assert value(self.lists, self.truth, metric="hit_rate@1") == 1.0
        apart = self.lists.assign(score=[3.0, 1.0, 1.0])
        assert value(apart, self.truth, metric="hit_rate@1") == 1.0

    @pytest.mark.filterwarnings("ignore:1 of 2 gains are below 0")
    @pytest.mark.parametrize("form", ["frames", "mappings", "matrix"])
    @pytest.mark.parametrize("gains", [{0: 3.0, 1: 1.0, 2: 0.0}, {0: 2.0, 2: -3.0}, {1: 1.0}])
    def test_the_worst_order_is_the_least_of_all(self, form: str, gains: dict[int, float]) -> None:
        lists: Any = rows(user=[0] * 4, item=[0, 1, 2, 3], score=[0.5, 0.5, 0.5, 0.1])
        truth: Any = rows(user=[0] * len(gains), item=[*gains], rating=[*gains.values()])
        if form == "mappings":
            lists, truth = {0: {0: 0.5, 1: 0.5, 2: 0.5, 3: 0.1}}, {0: gains}
        if form == "matrix":
            lists, truth = np.array([[0.5, 0.5, 0.5, 0.1]]), [gains]
        for metric in ("ndcg@3", "dcg(gain=exp2)@2", "err@3", "mrr", "value_per_list@1"):
            least = min(
                value([[*order, 3]], [gains], metric=metric) for order in permutations(range(3))
            )
            assert value(lists, truth, metric=metric, ties="worst") == least

    def test_scores_beside_a_metric_of_trec_eval_have_32_bits(self) -> None:
        """Whatever holds them: as such floats, both are equal, and the larger id is first."""
        run = {"q": {"a": 0.2000000001, "b": 0.2}}
        table = rows(user=["q", "q"], item=["a", "b"], score=[0.2000000001, 0.2])
        matrix = np.array([[0.2000000001, 0.2]])
        for lists, truth in ((run, {"q": {"b": 1}}), (table, {"q": {"b": 1}}), (matrix, [{1: 1}])):
            assert value(lists, truth, metric="trec:recip_rank", ties="id_desc") == 1.0
            assert value(lists, truth, metric="mrr", ties="id_desc") == 0.5
        with pytest.warns(SuspiciousEventsWarning, match="equal as 32-bit floats: 1; trec_eval"):
            both = evaluate(table, {"q": {"b": 1}}, "trec:recip_rank", "mrr", ties="id_desc")
        assert (both["trec:recip_rank"].value, both["mrr"].value) == (1.0, 1.0)

    def test_a_random_order_is_the_same_wherever_the_rows_are(self) -> None:
        users = 400
        lists = rows(
            user=[*range(users)] * 2, item=[1] * users + [2] * users, score=[0.0] * (2 * users)
        )
        truth = rows(user=[*range(users)], item=[1] * users)
        first = value(lists, truth, metric="hit_rate@1", ties="random")
        assert 0.4 < first < 0.6
        again = lists.sample(frac=1, random_state=3).astype({"user": str, "item": str})
        text = truth.astype(str)
        assert value(again, text, metric="hit_rate@1", ties="random") == first

    @pytest.mark.parametrize("ties", ["arrival", "id_asc", "id_desc", "worst", "random"])
    @pytest.mark.parametrize("metric", ["mrr", "hit_rate@2"])
    def test_a_matrix_orders_equal_scores_as_the_same_rows_do(self, ties: str, metric: str) -> None:
        draw = np.random.default_rng(7)
        scores = draw.integers(0, 3, (40, 12)) / 2
        liked = draw.integers(0, 12, 40)
        grid = np.indices(scores.shape)
        lists = pd.DataFrame({"user": grid[0].ravel(), "item": grid[1].ravel()})
        truth = pd.DataFrame({"user": range(40), "item": liked})
        lists["score"] = scores.ravel()
        expected = value(lists, truth, metric=metric, ties=ties)
        assert value(scores, [[item] for item in liked], metric=metric, ties=ties) == expected

    def test_equal_scores_of_a_matrix_are_said_and_ordered_as_asked(self) -> None:
        scores, liked = np.full((2, 4), 0.5), [[0], [3]]
        with pytest.warns(SuspiciousEventsWarning, match="users whose scores are all equal: 2;"):
            assert value(scores, liked, metric="mrr") == (1 + 1 / 4) / 2
        assert value(scores, liked, metric="mrr", ties="worst") == 1 / 4
        assert value(scores, liked, metric="mrr", ties="id_desc") == (1 / 4 + 1) / 2


class TestMarks:
    def test_a_user_who_played_one_item_ten_times_is_no_mark(self, tmp_path: Path) -> None:
        lists, truth = {1: [7, 1], 2: [8, 9]}, {1: [1] * 10, 2: [8]}
        assert value(lists, truth, metric="mrr") == 0.75
        events = [
            {"recommendations": [7, 8], "interactions": [1] * 10},
            {"recommendations": [7, 8], "interactions": [7]},
        ]
        path = json_lines(tmp_path / "events.ndjson", events)
        assert readings(path, "-m", "mrr")[0]["value"] == 0.5
        entries = [
            Event(recommendations=event["recommendations"], interactions=event["interactions"])
            for event in events
        ]
        assert value(entries, None, metric="mrr") == 0.5
        columns = Columns(
            recommendations=np.array([[7, 8], [7, 8]]),
            interactions=[np.array([1] * 10), np.array([7])],
        )
        assert value(columns, None, metric="mrr") == 0.5


class TestRepeatsInTheTruth:
    lists, truth = {1: ["a"]}, {1: ["a", "a", "b"]}

    def test_rectools_counts_rows_and_this_package_items_which_is_said(self) -> None:
        with pytest.warns(SuspiciousEventsWarning, match="rows of the truth that repeat .*: 1;"):
            assert value(self.lists, self.truth, metric="rectools:Recall@1") == 0.5
        assert value(self.lists, self.truth, metric="recall@1") == 0.5


def test_an_evaluation_has_the_configuration_of_a_daemon_with_the_same_values() -> None:
    evaluation = evaluate([["a", "b"]], [["b"]], "mrr", "ndcg@2")
    assert (evaluation.config.metrics, evaluation.config.event.ids) == (["mrr", "ndcg@2"], "string")
    assert evaluate(np.array([[0.5, 0.1]]), [[1]], "mrr").config.event.ids == "integer"


class TestAnswers:
    def test_metrics_may_be_in_a_list(self) -> None:
        evaluation = evaluate({1: ["a", "b"]}, {1: ["b"]}, ["ndcg@2", "mrr"])
        assert list(evaluation) == ["ndcg@2", "mrr"]

    def test_the_denominator_stands_beside_each_value(self) -> None:
        lists, truth = {1: ["a"], 2: ["b"]}, {1: ["a"]}
        with pytest.warns(SuspiciousEventsWarning, match="without truth: 1"):
            evaluation = evaluate(lists, truth, "recall@1", "hit_rate@1")
        assert str(evaluation).splitlines() == [
            "metric      value   low  high  count  lists  users",
            "recall@1    1.0000             1      2      2",
            "hit_rate@1  0.5000             2      2      2",
        ]
        assert evaluation.to_frame("pyarrow")["count"].to_pylist() == [1, 2]


def test_a_store_of_checkpoints_is_no_file_of_events(tmp_path: Path) -> None:
    (tmp_path / "store.json").write_text('{"version":1,"cluster":"c","group":"g"}\n')
    for inputs in ((tmp_path,), ({1: ["a"]}, tmp_path), (tmp_path, {1: ["a"]})):
        with pytest.raises(UsageError, match="a store of checkpoints, whose events are counted"):
            evaluate(*inputs, "mrr")


def test_a_folder_is_read_once_whatever_links_lead_to_it(tmp_path: Path) -> None:
    below = tmp_path / "below"
    below.mkdir()
    (below / "events.csv").write_text("recommendations,interactions\na|b,a\n")
    (tmp_path / "above").symlink_to(below)
    (below / "again").symlink_to(tmp_path)
    evaluation = evaluate(tmp_path, "hit_rate@1")
    assert evaluation["hit_rate@1"].count == 1


def test_a_folder_of_too_many_files_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streameval.sources.opening._MOST", 3)
    for number in range(4):
        (tmp_path / f"{number}.csv").touch()
    with pytest.raises(SourceError, match="more than 3 files are below it"):
        evaluate(tmp_path, "mrr")


def test_braces_in_the_name_of_a_file_name_no_setting(tmp_path: Path) -> None:
    path = tmp_path / "{by}.csv"
    path.write_text("user,thing\n1,a\n")
    arguments: tuple[str | Path, ...] = ("--recommendations", path, "--truth", path)
    with pytest.raises(UsageError) as raised:
        evaluate(path, {1: ["a"]}, "mrr")
    for message in (str(raised.value), run("evaluate", *arguments, "-m", "mrr").stderr):
        assert message.removeprefix("streameval: ").startswith(
            f"{path}: no column has a usual name"
        )
    with pytest.raises(UsageError, match=r"holds the \{ties\} with columns="):
        evaluate(rows(recommendations=[["a"]], interactions=[["a"]]), "mrr", by="{ties}")


def test_surroundings_that_have_a_name_may_be_given_another() -> None:
    told = list[str]()
    outer = SURROUNDINGS._replace(note=lambda doubt: told.append(str(doubt)))
    named = outer.about("{ties}").about("b").about("c")
    named.note("no event")
    named.note(Note("{path}: give {by}.", path="x"))
    assert told == ["{ties}: b: c: no event", "{ties}: b: c: x: give by=."]


def test_no_sentence_that_names_settings_has_the_words_of_a_caller() -> None:
    """They are values of it, or their braces would name settings; numbers have none."""
    texts = [
        ast.unparse(part)
        for path in Path(streameval.__file__).parent.rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call)
        and ast.unparse(call.func) in ("Note", "InputError", "self._note")
        for part in ast.walk(call.args[0])
        if isinstance(part, ast.FormattedValue)
    ]
    assert [text for text in texts if ":," not in text] == []
