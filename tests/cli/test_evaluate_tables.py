"""Parquet and CSV with one event per row."""

from __future__ import annotations

import csv
import json
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval import Accumulator
from streameval.decoding.fields import EventFields
from streameval.evaluation.counted import count
from streameval.evaluation.events import EventRows, Needs
from streameval.evaluation.files import EmptyFileError, parts_of
from streameval.evaluation.options import InputError, Options
from streameval.evaluation.setup import Request, setup_of
from streameval.evaluation.shell.terminal import SURROUNDINGS
from streameval.evaluation.sources import given_of
from streameval.events.errors import SourceError
from streameval.statistics.matching import Search
from tests.cli.program import json_lines, metric_options, readings, run, usage_error, write_file

METRICS = ("mrr", "recall@2", "ndcg@3", "distinct_items@2", "ctr")
SHOWN = [[1, 2, 3], [2], [], [3, 1]]
ACTS = [[3, 9], [], [1], [1, 3, 3]]
VARIANTS = ["b", "a", "a", "b"]


def readings_of(*arguments: str | Path, metrics: tuple[str, ...] = METRICS) -> list[dict[str, Any]]:
    return readings(*arguments, *metric_options(metrics))


def values(read: list[dict[str, Any]], **labels: str) -> dict[str, tuple[float, int]]:
    chosen = (reading for reading in read if reading["labels"] == labels)
    return {reading["metric"]: (reading["value"], reading["count"]) for reading in chosen}


def expected(rows: list[int]) -> dict[str, tuple[float, int]]:
    accumulator = Accumulator(*METRICS)
    for row in rows:
        accumulator.update(SHOWN[row], ACTS[row])
    read = accumulator.compute().values()
    return {reading.metric: (reading.value, reading.count) for reading in read}


def error_of(*arguments: str | Path) -> str:
    return usage_error("evaluate", *arguments, "-m", "mrr")


def parquet(path: Path, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


@pytest.fixture
def events(tmp_path: Path) -> Path:
    return parquet(
        tmp_path / "events.parquet", recommendations=SHOWN, interactions=ACTS, variant=VARIANTS
    )


def test_lists_of_parquet_are_events(events: Path) -> None:
    assert values(readings_of(events)) == expected([0, 1, 2, 3])


def test_a_column_splits_every_metric(events: Path) -> None:
    read = readings_of(events, "--by", "variant")
    assert values(read, variant="a") == expected([1, 2])
    assert values(read, variant="b") == expected([0, 3])
    assert [reading["labels"]["variant"] for reading in read] == ["a", "b"] * len(METRICS)


@pytest.mark.parametrize(("separator", "option"), [(" ", None), ("|", None), (";", ";")])
def test_csv_has_its_ids_separated(tmp_path: Path, separator: str, option: str | None) -> None:
    lists = [
        [separator.join(map(str, items)) for items in row] for row in zip(SHOWN, ACTS, strict=True)
    ]
    lines = (f'x,"{shown}","{acts}"' for shown, acts in lists)
    path = tmp_path / "events.csv"
    path.write_text("\n".join(["unread,recommendations,interactions", *lines]))
    given = [] if option is None else ["--separator", option]
    assert values(readings_of(path, *given)) == expected([0, 1, 2, 3])


def test_columns_may_be_named_by_a_configuration(tmp_path: Path) -> None:
    path = parquet(tmp_path / "events.parquet", shown=SHOWN, clicked=ACTS, arm=[1, 2, 2, 1])
    config = tmp_path / "streameval.toml"
    config.write_text(
        'metrics = ["mrr"]\nlabels = ["variant"]\n[source]\ntype = "simulator"\n[event]\n'
        'recommendations = "shown"\ninteractions = "clicked"\n[event.labels]\nvariant = "arm"\n'
    )
    assert values(readings_of(path, "--config", config), variant="2") == expected([1, 2])


def test_scores_and_positions_are_read_where_there_are_any(tmp_path: Path) -> None:
    columns = {"recommendations": [["a", "b"]], "interactions": [["b"]]}
    path = parquet(tmp_path / "a.parquet", **columns, scores=[[0.5, 0.75]], positions=[[4, 2]])
    read = values(readings_of(path, metrics=("mrr", "auc")))
    assert read == {"mrr": (0.5, 1), "auc": (1.0, 1)}
    text = tmp_path / "a.csv"
    text.write_text("recommendations,interactions,scores,positions\na b,b,0.5 0.75,4 2\n")
    assert values(readings_of(text, metrics=("mrr", "auc"))) == read


def test_digits_are_integers_where_the_configuration_says_so(tmp_path: Path) -> None:
    path = write_file(tmp_path / "events.csv", "recommendations,interactions\n01 2,1\n")
    config = tmp_path / "streameval.toml"
    config.write_text('metrics = ["mrr"]\n[source]\ntype = "simulator"\n[event]\nids = "integer"\n')
    assert readings_of(path, metrics=("mrr",))[0]["value"] == 0.0
    assert readings_of(path, "--config", config, metrics=("mrr",))[0]["value"] == 1.0
    mixed = parquet(tmp_path / "a.parquet", recommendations=[[1, 2]], interactions=[["2"]])
    assert 'or set ids = "integer" under [event]' in error_of(mixed)
    assert readings_of(mixed, "--config", config, metrics=("mrr",))[0]["value"] == 0.5


@pytest.mark.parametrize("written_as", ["json", "python"])
def test_lists_may_be_written_as_json_or_as_python_does(tmp_path: Path, written_as: str) -> None:
    write = json.dumps if written_as == "json" else repr
    path = tmp_path / "events.csv"
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["recommendations", "interactions", "scores"])
        for shown, acts in zip(SHOWN, ACTS, strict=True):
            rows.writerow([write(shown), write(list(map(str, acts))), write([0.5] * len(shown))])
    assert values(readings_of(path)) == expected([0, 1, 2, 3])


def test_each_column_may_have_a_separator_and_a_name_of_its_own(tmp_path: Path) -> None:
    lines = (
        f"{'|'.join(map(str, shown))},{';'.join(map(str, acts))}\n"
        for shown, acts in zip(SHOWN, ACTS, strict=True)
    )
    path = write_file(tmp_path / "events.csv", "".join(["shown,clicks\n", *lines]))
    named = ["--column", "recommendations=shown", "--column", "interactions=clicks"]
    assert values(readings_of(path, *named, "--separator", "clicks=;")) == expected([0, 1, 2, 3])
    both = ["--separator", "shown=|", "--separator", ";"]
    assert values(readings_of(path, *named, *both)) == expected([0, 1, 2, 3])


def test_a_separator_of_a_column_is_always_used(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text('recommendations,interactions\n"Heat|Toy Story, The","Toy Story, The"\n')
    given = ["--separator", "recommendations=|", "--separator", "interactions=|"]
    assert readings_of(path, *given, metrics=("mrr",))[0]["value"] == 0.5


@pytest.mark.parametrize(
    "content",
    [
        b"recommendations,interactions\n7 8,007\n",
        b"\nrecommendations,interactions\n7,007\n",
        b"\r\n\r\nrecommendations,interactions\r\n7,007\r\n",
        b"recommendations,interactions\r7,007\r",
        b'"the\nlist",recommendations,interactions\n1,7,007\n',
        b'"the\r\nlist";recommendations;interactions\r\n1;7;007\r\n',
    ],
)
def test_text_stays_text_whatever_its_header_looks_like(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "EVENTS.CSV"
    path.write_bytes(content)
    assert readings_of(path, metrics=("mrr",))[0]["value"] == 0.0
    path.write_bytes(content.replace(b"007", b"7"))
    assert readings_of(path, metrics=("mrr",))[0]["value"] == 1.0


@pytest.mark.parametrize("form", ["csv", "parquet", "ndjson"])
def test_an_empty_label_is_missing(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"events.{form}"
    columns = {"recommendations": [["a"]] * 2, "interactions": [["a"]] * 2, "variant": ["x", ""]}
    if form == "parquet":
        parquet(path, **columns)
    elif form == "csv":
        write_file(path, "recommendations,interactions,variant\na,a,x\na,a,\n")
    else:
        json_lines(path, pa.table(columns).to_pylist())
    read = readings_of(path, "--by", "variant", metrics=("mrr",))
    assert [reading["labels"]["variant"] for reading in read] == ["__missing__", "x"]


def test_a_configuration_needs_no_source_if_files_are_given(events: Path, tmp_path: Path) -> None:
    config = write_file(tmp_path / "streameval.toml", 'metrics = ["mrr"]\n')
    pairs = zip(SHOWN, ACTS, strict=True)
    records = ({"recommendations": shown, "interactions": acts} for shown, acts in pairs)
    for path in (events, json_lines(tmp_path / "events.ndjson", records)):
        (read,) = readings_of(path, "--config", config, metrics=())
        assert read["value"] == expected([0, 1, 2, 3])["mrr"][0]
    assert "source: this key is missing" in error_of("--config", config)


def test_fields_of_json_lines_are_named_in_the_same_way(tmp_path: Path) -> None:
    path = tmp_path / "events.ndjson"
    path.write_text('{"list": {"shown": ["a", "b"]}, "did": ["b"], "arm": "x"}\n')
    columns = ("recommendations=list.shown", "interactions=did", "variant=arm")
    named = [part for column in columns for part in ("--column", column)]
    read = readings_of(path, *named, "--by", "variant", metrics=("mrr",))
    assert values(read, variant="x") == {"mrr": (0.5, 1)}


def test_lists_beside_the_recommendations_are_read_from_json_lines(tmp_path: Path) -> None:
    records = [{"recommendations": [1], "interactions": [1], "other": [1]}]
    path = json_lines(tmp_path / "events.ndjson", records)
    for field, metric, value in (
        ("baseline", "replay_0_22:unexpectedness@3", 1 - 1 / 3),
        ("history", "user_novelty@3", 0.0),
    ):
        (read,) = readings_of(path, "--column", f"{field}=other", metrics=(metric,))
        assert read["value"] == value


CONFIG = """
metrics = ["mrr", "ndcg@2", "users_covered"]
labels = ["variant"]
segments = ["country"]
dedup = "1h"
windows = { spans = ["5m", "1h"] }
intervals = { groups = 16 }
metric = [{ name = "recall@2", segments = ["country"], windows = ["1h"] }]
event = { time = "ts", time_unit = "s", event_id = "id" }
"""


def repeated_events() -> list[dict[str, Any]]:
    """Two hours of events, of which one in five is there twice and one in nine comes late."""
    rows = [
        {
            "recommendations": [f"i{(at + place) % 7}" for place in range(3)],
            "interactions": [f"i{at * at % 7}"],
            "user": f"u{at % 31}",
            "variant": "ab"[at % 2],
            "country": ["de", "fr", None][at % 3],
            "id": f"e{at}",
            "ts": 1_700_000_000 + 20 * at - (7_200 if at % 9 == 8 else 0),
        }
        for at in range(400)
    ]
    return [row for at, row in enumerate(rows) for _ in range(2 if at % 5 == 0 else 1)]


def test_windows_segments_dedup_and_own_tables_apply_to_tables_as_to_json_lines(
    tmp_path: Path,
) -> None:
    rows = repeated_events()
    config = write_file(tmp_path / "streameval.toml", CONFIG)
    lines = json_lines(tmp_path / "events.ndjson", rows)
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "events.parquet", row_group_size=64)
    header = ",".join(rows[0])
    cells = [
        ",".join("|".join(x) if isinstance(x, list) else str(x or "") for x in row.values())
        for row in rows
    ]
    table = write_file(tmp_path / "events.csv", "\n".join([header, *cells]))
    expected = state(str(lines), str(config))
    assert {("variant",), ("variant", "country")} <= {*expected}
    assert expected == state(str(tmp_path / "events.parquet"), str(config))
    assert len(expected) > 10
    csv_state = state(str(table), str(config))
    # An empty cell is text without a value, where JSON has none.
    assert set(csv_state) == {*expected}
    call = ("--config", config, "--format", "json", "--processes")
    outputs = [
        run("evaluate", path, *call, processes).stdout
        for path in (lines, tmp_path / "events.parquet")
        for processes in ("1", "2")
    ]
    assert len({*outputs}) == 1
    assert {row["window"] for row in json.loads(outputs[0])} == {"5m", "1h", "lifetime"}


def state(path: str, config: str) -> dict[Any, bytes]:
    """The counts of each family over all time, and the readings of each window."""
    options = Options(config=config)
    request = Request(given_of([path], None, None, options), options)
    counted = count(setup_of(request), SURROUNDINGS)
    ((_, snapshot),) = counted.spans
    windows = {
        (entry.metric.text, entry.labels, entry.window): repr(entry.reading).encode()
        for entry in snapshot.series
    }
    return windows | {
        family.names: b"".join(family.table.dump([*family.labels])) for family in counted.families
    }


def test_rows_of_items_have_no_windows_segments_or_event_ids(tmp_path: Path) -> None:
    path = write_file(tmp_path / "rows.csv", "user,item\nu,a\n")
    config = write_file(tmp_path / "streameval.toml", CONFIG)
    pair = ("--recommendations", path, "--truth", path, "--config", config)
    done = run("evaluate", *pair, "--format", "json")
    values = {row["metric"]: row["value"] for row in json.loads(done.stdout)}
    assert values == {"mrr": 1.0, "ndcg@2": 1.0, "users_covered": 1.0, "recall@2": 1.0}


def read_all(path: Path) -> None:
    rows = EventRows(EventFields(), [], Needs(), Options())
    parts = parts_of(str(path), Options())
    rows.find_kind(parts)
    for part in parts:
        list(rows.read(part, Search()))


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet", "pq"])
@given(content=st.binary(max_size=300))
def test_any_bytes_are_a_table_or_explained(suffix: str, content: bytes) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"events.{suffix}"
        path.write_bytes(content)
        with suppress(SourceError, EmptyFileError, InputError):
            read_all(path)


@given(data=st.data())
def test_damaged_parquet_is_a_table_or_explained(data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        path = parquet(Path(folder) / "a.parquet", recommendations=SHOWN, interactions=[["a"]] * 4)
        damaged = bytearray(path.read_bytes())
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
        path.write_bytes(damaged[: data.draw(st.integers(1, len(damaged)) | st.none())])
        with suppress(SourceError, EmptyFileError, InputError):
            read_all(path)


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
def test_parquet_and_json_lines_give_the_same_bits(
    lists: list[tuple[list[int], list[int]]],
) -> None:
    shown, acts = [pair[0] for pair in lists], [pair[1] for pair in lists]
    kind = pa.list_(pa.int64())
    records = ({"recommendations": pair[0], "interactions": pair[1]} for pair in lists)
    with TemporaryDirectory() as folder:
        table = parquet(
            Path(folder) / "events.parquet",
            recommendations=pa.array(shown, kind),
            interactions=pa.array(acts, kind),
        )
        assert readings_of(table) == readings_of(
            json_lines(Path(folder) / "events.ndjson", records)
        )


def test_half_a_file_of_parquet_is_named(events: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.parquet").write_bytes(events.read_bytes()[:-9])
    assert "bad.parquet: " in error_of(tmp_path / "bad.parquet")


def test_users_are_read_if_a_metric_reads_them(tmp_path: Path) -> None:
    users = ["u", "v", None, "u"]
    path = parquet(tmp_path / "a.pq", recommendations=SHOWN, interactions=ACTS, user=users)
    assert readings_of(path, metrics=("users_covered",))[0]["value"] == 2.0


CHANCES: Final = """
[event]
per_item = { propensity = "propensity", target = "target", team = "team" }
"""


@pytest.mark.parametrize("form", ["text", "json", "parquet"])
def test_a_word_instead_of_a_chance_leaves_out_its_row_alone(tmp_path: Path, form: str) -> None:
    chances: list[list[Any]] = [[0.5, 0.25], [0.5, "low"], [0.125, None], [1, 0.75]]
    texts = ["|".join("" if entry is None else str(entry) for entry in row) for row in chances]
    columns = {
        "recommendations": ["a|b"] * 4,
        "interactions": ["a", "b", "a", ""],
        "propensity": [*map(json.dumps, chances)] if form == "json" else texts,
        "target": ["0.5|0.5"] * 4,
        "team": ["old|new", "old|new", "7|new", "new|old"],
    }
    path = tmp_path / ("log.parquet" if form == "parquet" else "log.csv")
    if form == "parquet":
        parquet(path, **columns)
    else:
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([columns, *zip(*columns.values(), strict=True)])
    (config := tmp_path / "streameval.toml").write_text(CHANCES)
    metrics = ("ips", "importance_weight", "ctr", "interleaving(a=old,b=new)")
    done = run("evaluate", path, "--config", config, "--format", "json", *metric_options(metrics))
    assert done.returncode == 0, done.stderr
    read = [(row["value"], row["count"]) for row in json.loads(done.stdout)]
    log = Accumulator(*metrics)
    for row in (0, 2, 3):
        teams = columns["team"][row].split("|")
        values = {"propensity": chances[row], "target": [0.5, 0.5], "team": teams}
        log.update(["a", "b"], [*columns["interactions"][row]], per_item=values)
    alone = log.compute().values()
    assert read == [(reading.value, reading.count) for reading in alone]
    assert "1 of 4 records are invalid" in done.stderr
    assert f"1 invalid_per_item, first in {path}, row 2: propensity[1]: 'low'" in done.stderr
