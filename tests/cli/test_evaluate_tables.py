"""Parquet and CSV with one event a row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streameval import Accumulator
from streameval.cli.app import status

METRICS = ("mrr", "recall@2", "ndcg@3", "distinct_items@2", "ctr")
SHOWN = [[1, 2, 3], [2], [], [3, 1]]
ACTS = [[3, 9], [], [1], [1, 3, 3]]
VARIANTS = ["b", "a", "a", "b"]


def found(*arguments: str | Path, metrics: tuple[str, ...] = METRICS) -> list[dict[str, Any]]:
    asked = [part for text in metrics for part in ("-m", text)]
    with pytest.MonkeyPatch.context() as patch:
        written: list[str] = []
        patch.setattr("sys.stdout.write", written.append)
        assert status(["evaluate", *map(str, arguments), *asked, "--format", "json"]) == 0
    readings: list[dict[str, Any]] = json.loads("".join(written))
    return readings


def values(readings: list[dict[str, Any]], **labels: str) -> dict[str, tuple[float, int]]:
    chosen = (each for each in readings if each["labels"] == labels)
    return {each["metric"]: (each["value"], each["count"]) for each in chosen}


def expected(rows: list[int]) -> dict[str, tuple[float, int]]:
    accumulator = Accumulator(*METRICS)
    for row in rows:
        accumulator.update(SHOWN[row], ACTS[row])
    readings = accumulator.compute().values()
    return {reading.metric: (reading.value, reading.count) for reading in readings}


def told(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """The one line that a wrong call is answered by."""
    assert status(["evaluate", *map(str, arguments), "-m", "mrr"]) == 2
    done = capsys.readouterr()
    assert (done.out, done.err.count("\n")) == ("", 1)
    return done.err


def parquet(path: Path, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


@pytest.fixture
def events(tmp_path: Path) -> Path:
    return parquet(
        tmp_path / "events.parquet", recommendations=SHOWN, interactions=ACTS, variant=VARIANTS
    )


def test_lists_of_parquet_are_events(events: Path) -> None:
    assert values(found(events)) == expected([0, 1, 2, 3])


def test_a_column_splits_every_metric(events: Path) -> None:
    readings = found(events, "--by", "variant")
    assert values(readings, variant="a") == expected([1, 2])
    assert values(readings, variant="b") == expected([0, 3])
    assert [each["labels"]["variant"] for each in readings] == ["a", "b"] * len(METRICS)


def test_several_files_are_one_stream(events: Path, tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    more = parquet(
        tmp_path / "more" / "events.pq", recommendations=SHOWN[:1], interactions=ACTS[:1]
    )
    assert values(found(events, more)) == expected([0, 1, 2, 3, 0])


@pytest.mark.parametrize(("separator", "option"), [(" ", None), ("|", None), (";", ";")])
def test_csv_has_its_ids_separated(tmp_path: Path, separator: str, option: str | None) -> None:
    lists = [
        [separator.join(map(str, each)) for each in row] for row in zip(SHOWN, ACTS, strict=True)
    ]
    lines = (f'x,"{shown}","{acts}"' for shown, acts in lists)
    path = tmp_path / "events.csv"
    path.write_text("\n".join(["unread,recommendations,interactions", *lines]))
    asked = [] if option is None else ["--separator", option]
    assert values(found(path, *asked)) == expected([0, 1, 2, 3])


def test_columns_may_be_named_by_a_configuration(tmp_path: Path) -> None:
    path = parquet(tmp_path / "events.parquet", shown=SHOWN, clicked=ACTS, arm=[1, 2, 2, 1])
    config = tmp_path / "streameval.toml"
    config.write_text(
        'metrics = ["mrr"]\nlabels = ["variant"]\n[source]\ntype = "simulator"\n[event]\n'
        'recommendations = "shown"\ninteractions = "clicked"\n[event.labels]\nvariant = "arm"\n'
    )
    assert values(found(path, "--config", config), variant="2") == expected([1, 2])


def test_scores_and_positions_are_read_where_there_are_any(tmp_path: Path) -> None:
    columns = {"recommendations": [["a", "b"]], "interactions": [["b"]]}
    path = parquet(tmp_path / "a.parquet", **columns, scores=[[0.5, 0.75]], positions=[[4, 2]])
    readings = values(found(path, metrics=("mrr", "auc")))
    assert readings == {"mrr": (0.5, 1), "auc": (1.0, 1)}
    text = tmp_path / "a.csv"
    text.write_text("recommendations,interactions,scores,positions\na b,b,0.5 0.75,4 2\n")
    assert values(found(text, metrics=("mrr", "auc"))) == readings


def test_digits_are_integers_where_the_configuration_says_so(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text("recommendations,interactions\n01 2,1\n")
    config = tmp_path / "streameval.toml"
    config.write_text('metrics = ["mrr"]\n[source]\ntype = "simulator"\n[event]\nids = "integer"\n')
    assert found(path, metrics=("mrr",))[0]["value"] == 0.0
    assert found(path, "--config", config, metrics=("mrr",))[0]["value"] == 1.0


@given(
    lists=st.lists(
        st.tuples(
            st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 5), max_size=4),
            st.lists(st.integers(0, 5), max_size=4),
        ),
        min_size=1,
        max_size=6,
    )
)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_parquet_and_json_lines_give_the_same_bits(
    tmp_path: Path, lists: list[tuple[list[int], list[int]]]
) -> None:
    shown, acts = [pair[0] for pair in lists], [pair[1] for pair in lists]
    kind = pa.list_(pa.int64())
    table = parquet(
        tmp_path / "events.parquet",
        recommendations=pa.array(shown, kind),
        interactions=pa.array(acts, kind),
    )
    lines = tmp_path / "events.ndjson"
    records = (json.dumps({"recommendations": pair[0], "interactions": pair[1]}) for pair in lists)
    lines.write_text("\n".join(records))
    assert found(table) == found(lines)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("recommendations\na\n", "no column 'interactions'; its columns: recommendations"),
        ("recommendations,interactions\na||b,\n", "row 1, column 'recommendations': found 'a||b'"),
        ("recommendations,interactions,scores\na,,x\n", "row 1, column 'scores': found 'x'"),
        ("recommendations,interactions,scores\na b,,1\n", "scores: give one number for each item"),
        ("recommendations,interactions,positions\na,,0\n", "positions"),
        ("recommendations,recommendations,interactions\na,b,c\n", "no column 'recommendations'"),
    ],
)
def test_what_is_no_table_of_events_is_explained(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: str, says: str
) -> None:
    path = tmp_path / "events.csv"
    path.write_text(content)
    assert says in told(capsys, path)


@pytest.mark.parametrize(
    ("shown", "says"),
    [
        (pa.array([7]), "column 'recommendations' holds int64"),
        (pa.array([[1.5]]), "recommendations are lists of double; give ids"),
        (pa.array([["a"]]), "ids are integers in interactions of "),
        (pa.array([None], pa.list_(pa.int64())), "recommendations: null is no list"),
        (pa.array([[{"id": 1}]]), "recommendations are lists of struct<id: int64>"),
    ],
)
def test_columns_of_parquet_that_hold_no_ids_are_explained(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, shown: Any, says: str
) -> None:
    path = parquet(tmp_path / "events.parquet", recommendations=shown, interactions=[[1]])
    assert says in told(capsys, path)


def test_calls_that_cannot_be_meant_are_explained(
    capsys: pytest.CaptureFixture[str], events: Path, tmp_path: Path
) -> None:
    (tmp_path / "bad.parquet").write_bytes(events.read_bytes()[:-9])
    assert "bad.parquet: " in told(capsys, tmp_path / "bad.parquet")
    assert "evaluate them apart" in told(capsys, events, "events.ndjson")
    assert "no column 'campaign'" in told(capsys, events, "--by", "campaign")
    assert "row 1: label: an array is neither" in told(capsys, events, "--by", "recommendations")
    assert "no-such.parquet: no such file" in told(capsys, "no-such.parquet")
