"""Columns and rows as other programs write them: each is read, or refused with a remedy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from streameval import Accumulator, evaluate
from streameval.events.errors import StreamevalError

_LISTS = [["a", "b"], ["c"]]
_TRUTH = {"u": ["b"], "v": ["c"]}
"""The hit of u is at rank 2, that of v at rank 1: the mean reciprocal rank is 0.75."""


def mrr(*given: Any, **options: Any) -> float:
    return evaluate(*given, "mrr", **options)["mrr"].value


def wide(items: Any, users: Any = ("u", "v"), **columns: Any) -> pa.Table:
    return pa.table({"user": users, "item": items, **columns})


def views(lists: Any, kind: Any) -> Any:
    """List views in another order than their values, and a null."""
    (first, second), text = lists, pa.array([*lists[1], *lists[0]])
    offsets, sizes = [len(second), 0], [len(first), len(second)]
    large = pa.types.is_large_list_view(kind)
    array, size = (pa.LargeListViewArray, pa.int64()) if large else (pa.ListViewArray, pa.int32())
    return array.from_arrays(pa.array(offsets, size), pa.array(sizes, size), text)


_MAPS = pa.array([[("b", 0.5), ("a", 0.9)], [("c", 0.7)]], pa.map_(pa.string(), pa.float64()))
_ENCODED = pc.run_end_encode(pa.array(["u", "u", "v"]))
_ROWS = pa.table({"user": _ENCODED, "item": ["b", "a", "c"], "score": [0.5, 0.9, 0.7]})

READ: dict[str, Any] = {
    "list view": wide(views(_LISTS, pa.list_view(pa.string()))),
    "large list view": wide(views(_LISTS, pa.large_list_view(pa.string()))),
    "list view of string views": wide(pa.array(_LISTS, pa.list_view(pa.string_view()))),
    "map of item and score": wide(_MAPS),
    "run-end-encoded users": _ROWS,
    "padded cells": wide(["a b -1 -1", "c -1 -1"]),
    "padded by empty entries": wide(["a|b||", "c|||"]),
    "padded lists": wide([["a", "b", "-1", ""], ["c", "-1"]]),
    "padded beside scores": wide([["b", "a", "-1"], ["c"]], score=[[0.5, 0.9, 9.0], [1.0]]),
    "padded, scores are not": wide([["b", "a", "-1"], ["c"]], score=[[0.5, 0.9], [1.0]]),
    "padded mapping": {"u": ["a", "b", "-1", "-1"], "v": ["c"]},
}


_SEPARATORS = {"padded cells": " ", "padded by empty entries": "|"}


@pytest.mark.parametrize("form", READ)
def test_a_layout_of_recommendations_is_read_without_a_warning(form: str, tmp_path: Path) -> None:
    """Also from an Arrow file; what ends a shorter list is no item that repeats."""
    separator = _SEPARATORS.get(form)
    assert mrr(READ[form], _TRUTH, separator=separator) == 0.75
    if isinstance(READ[form], pa.Table):
        with pa.ipc.new_file(tmp_path / "shown.arrow", READ[form].schema) as file:
            file.write_table(READ[form])
        assert mrr(tmp_path / "shown.arrow", _TRUTH, separator=separator) == 0.75


def test_list_views_of_events_are_read_at_every_door() -> None:
    kind = pa.list_view(pa.string())
    columns = {"recommendations": views(_LISTS, kind), "interactions": views([["b"], ["c"]], kind)}
    assert mrr(pa.table(columns)) == 0.75
    for inputs in ((pa.table(columns),), tuple(columns.values())):
        accumulator = Accumulator("mrr")
        accumulator.update_many(*inputs)
        assert accumulator.read("mrr").value == 0.75


def test_a_map_in_the_truth_has_gains() -> None:
    gains = pa.array([[("a", 1.0), ("b", 0.0)], [("c", 2.0)]], pa.map_(pa.string(), pa.float64()))
    assert mrr({"u": ["b", "a"], "v": ["c"]}, wide(gains)) == 0.75


_HUGE = 1 << 70
_NO_ID = "row 2, column 'user': found a missing value (null, NaN or NA), not an id; drop such rows"

REFUSED: dict[str, tuple[Callable[[], Any], str, str]] = {
    "huge id in a frame": (
        lambda: pd.DataFrame({"user": [1, _HUGE], "item": [1, 2]}),
        f"row 2, column 'user': {_HUGE} is beyond signed 64-bit integers",
        "give all ids as text",
    ),
    "huge id in a mapping": (
        lambda: {"u": [1], "v": [2, _HUGE]},
        f"user 'v', column 'item': {_HUGE} is beyond signed 64-bit integers",
        "give all ids as text",
    ),
    "Int64 with NA": (
        lambda: pd.DataFrame({"user": pd.array([1, None], dtype="Int64"), "item": [1, 2]}),
        _NO_ID,
        "keep_default_na=False",
    ),
    "objects with NA": (
        lambda: pd.DataFrame({"user": pd.Series(["u", pd.NA], dtype=object), "item": [1, 2]}),
        _NO_ID,
        "keep_default_na=False",
    ),
    "floats with NaN": (
        lambda: pd.DataFrame({"user": [1, np.nan], "item": [1, 2]}),
        "row 2, column 'user': found a missing value, because of which the other ids are floats",
        "keep_default_na=False",
    ),
}


@pytest.mark.parametrize("form", REFUSED)
def test_an_id_that_is_none_is_named_with_a_remedy(form: str) -> None:
    make, problem, remedy = REFUSED[form]
    with pytest.raises(StreamevalError) as raised:
        mrr(make(), {1: [1]})
    assert problem in str(raised.value)
    assert remedy in str(raised.value)


def test_a_huge_integer_in_json_lines_of_rows_is_named(tmp_path: Path) -> None:
    path = tmp_path / "shown.jsonl"
    path.write_text(f'{{"user": 1, "item": 1}}\n{{"user": 1, "item": {_HUGE}}}\n')
    with pytest.raises(StreamevalError, match=f"row 2, column 'item': {_HUGE} is beyond"):
        mrr(path, {1: [1]})


def test_a_map_of_an_event_has_no_order() -> None:
    events = pa.table({"recommendations": _MAPS, "interactions": [["b"], ["c"]]})
    with pytest.raises(StreamevalError, match="map<string, double>, which has no order; give"):
        mrr(events)


class TestMind:
    """Rows of behaviors.tsv: impression, user, time, history, and what was shown."""

    @staticmethod
    def behaviors(folder: Path, *shown: str, time: str = "11/11/2019 9:05:58 AM") -> Path:
        path = folder / "behaviors.tsv"
        rows = [f"{at}\tU{at}\t{time}\tN1 N2\t{items}\n" for at, items in enumerate(shown, 1)]
        path.write_text("".join(rows))
        return path

    def test_white_space_around_impressions_is_none(self, tmp_path: Path) -> None:
        path = self.behaviors(tmp_path, "N5-0  N6-1 ", " N7-1")
        evaluation = evaluate(path, "mrr", form="mind")
        assert evaluation["mrr"].value == 0.75
        assert evaluation.to_frame("pyarrow")["users"].to_pylist() == [2.0]

    @pytest.mark.parametrize(
        ("shown", "said"),
        [
            (["N5-1", ""], "line 2, column 'impressions': no impressions; remove rows in which"),
            (["N5-1", "N6-0", "N7"], "line 3, column 'impressions': 'N7' does not say if it was"),
        ],
    )
    def test_a_row_that_cannot_be_counted_is_named(
        self, tmp_path: Path, shown: list[str], said: str
    ) -> None:
        with pytest.raises(StreamevalError) as raised:
            mrr(self.behaviors(tmp_path, *shown), form="mind")
        assert said in str(raised.value)

    def test_a_file_that_looks_like_it_is_told_how_to_be_read(self, tmp_path: Path) -> None:
        with pytest.raises(StreamevalError, match="is like MIND's; read it with form='mind'"):
            mrr(self.behaviors(tmp_path, "N5-0 N6-1"))
        path = self.behaviors(tmp_path, "N5-0 N6-1")
        path.write_text(path.read_text().replace("\t", ","))
        with pytest.raises(StreamevalError, match="name the columns with header="):
            mrr(path)
        with pytest.raises(StreamevalError, match="write MIND's fields between tabs, or leave out"):
            mrr(path, form="mind")

    def test_its_times_are_read_without_being_named(self, tmp_path: Path) -> None:
        evaluation = evaluate(
            self.behaviors(tmp_path, "N5-1", time="12/1/2019 12:05:58 AM"),
            "mrr",
            form="mind",
            every="1h",
        )
        assert evaluation.to_frame("pyarrow")["start"].to_pylist() == ["2019-12-01T00:00:00Z"]
        with pytest.raises(StreamevalError, match=r"line 1, column 'time'.* is not a time"):
            evaluate(self.behaviors(tmp_path, "N5-1", time="soon"), "mrr", form="mind", every="1h")


class TestHeadlines:
    """Netflix' files: an item and a colon, and below it a row for each of its users."""

    @pytest.mark.parametrize(
        ("text", "gains"),
        [
            ("1:\n7,4,2005-12-26\n2:\n8,3,2005-12-26\n9,5,2004-01-01\n", [4, 3, 5]),
            ("1:\r\n7,4,2005\r\n2:\r\n8,3,2005\r\n9,5,2004\r\n3:\r\n", [4, 3, 5]),
            ("1:\n7,2005-12-26\n2:\n8,2005-12-26\n9,2005-12-26", [1, 1, 1]),
            ("1:\n7\n\n2:\n8\n9\n3:", [1, 1, 1]),
        ],
    )
    @pytest.mark.parametrize("block", [1, 7, 1 << 20])
    def test_every_row_has_the_item_above_it(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        text: str,
        gains: list[int],
        block: int,
    ) -> None:
        """However the file is cut into blocks."""
        path = tmp_path / "combined_data_1.txt"
        path.write_bytes(text.encode())
        cut = [text.encode()[at : at + block] for at in range(0, len(text), block)]
        monkeypatch.setattr("streameval.evaluation.files.content", lambda _: iter(cut))
        shown = {7: [2, 1], 8: [1, 2], 9: [2]}
        expected = {7: {1: gains[0]}, 8: {2: gains[1]}, 9: {2: gains[2]}}
        metrics = ("mrr", "dcg@2")
        evaluation, same = evaluate(shown, path, *metrics), evaluate(shown, expected, *metrics)
        assert {text: evaluation[text].value for text in metrics} == {
            text: same[text].value for text in metrics
        }

    def test_an_error_names_the_line_of_the_file(self, tmp_path: Path) -> None:
        path = tmp_path / "mv_0000001.txt"
        path.write_text("1:\n7,4,2005-12-26\n2:\n8,x,2005-12-26\n")
        with pytest.raises(StreamevalError, match=r"line 4, column 'rating': found 'x'"):
            mrr({7: [1], 8: [2]}, path)
