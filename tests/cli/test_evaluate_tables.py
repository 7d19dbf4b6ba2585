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


@pytest.mark.parametrize(
    ("columns", "option", "says"),
    [
        (("1|2|3", "4;5"), None, "separated by ';'; read it with --separator 'interactions=;'"),
        (("1|2|3", "4;5"), "|", "separated by ';'; read it with --separator 'interactions=;'"),
        (("1 2 3", "4, 5"), None, "separated by ','; read it with --separator 'interactions=,'"),
        (("1;2;3", "4 5"), ";", "separated by ' '; read it with --separator 'interactions= '"),
        (("1;2;3", "4\t5"), ";", "--separator $'interactions=\\t'"),
        (("1;2", "3; 4, 5,"), ";", "separated by ','"),
        (("1 2", "(4, 5)"), None, "found '(4, 5)', which looks like a list in brackets; write"),
        (("1 2", "[4 5]"), None, "found '[4 5]', which is not a JSON list"),
        (("1 2", "[4, 5]"), " ", "line 3, column 'interactions': found '4', which is not a JSON"),
        (("[1, [2]]", "4"), None, "column 'recommendations': found '[1, [2]]'"),
        (("[1.5]", "4"), None, "column 'recommendations': found '[1.5]'"),
        (("[true]", "4"), None, "column 'recommendations': found '[true]'"),
        (("[1, null]", "4"), None, "column 'recommendations': found '[1, null]'"),
        (('{"a": 1}', "4"), None, "which looks like a list in brackets"),
        (
            ("['1' '2']", "4"),
            None,
            "found \"['1' '2']\", which is not a JSON list; write each cell",
        ),
        (("['1'\n '2']", "4"), None, "of arrays, that is .tolist()"),
        (("1|2", "3 4"), None, "separated by ' '; read it with --separator 'interactions= '"),
        (
            ("1 2", "NaN"),
            None,
            "found 'NaN', which looks like a missing list; leave the cell empty",
        ),
        (("None", "4"), None, "or --separator 'recommendations=|' if it is an id"),
        (("1", "2"), "clicks=;", "no column 'clicks'; its columns: recommendations, interactions"),
    ],
)
def test_a_list_in_another_form_is_rejected(
    tmp_path: Path, columns: tuple[str, str], option: str | None, says: str
) -> None:
    path = tmp_path / "events.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("recommendations", "interactions"), columns, ("1", "4")])
    given = [] if option is None else ["--separator", option]
    said = error_of(path, *given)
    assert says in said
    assert "line 2" in said or "line 3" in said or "no column" in said


def test_an_error_names_the_line_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text(
        'note,recommendations,interactions\r\n"two\r\nlines, ""quoted""",a b,a\r\n\r\n,a b,a;b\r\n'
    )
    assert "events.csv: line 5, column 'interactions': found 'a;b'" in error_of(path)


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


@pytest.mark.parametrize(
    ("shown", "acts", "refused_as"),
    [
        ("1 2", "2.0", "the ids of interactions are floats, like '2.0', but the others are"),
        ("1.0|2.0", "2", "the ids of recommendations are floats, like '1.0'"),
        ("1.0 2.0", "2.0", None),
        ("1.0 b", "2", None),
    ],
)
def test_integers_that_became_floats_in_one_file_are_rejected(
    tmp_path: Path, shown: str, acts: str, refused_as: str | None
) -> None:
    path = write_file(tmp_path / "events.csv", f"recommendations,interactions\n{shown},{acts}\n")
    if refused_as is None:
        assert len(readings_of(path, metrics=("mrr",))) == 1
    else:
        assert refused_as in error_of(path)


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_marks_of_0_and_1_in_place_of_items_are_refused(tmp_path: Path, form: str) -> None:
    def given(shown: list[int], acts: list[int], rows: int = 10) -> Path:
        path = tmp_path / f"events.{form}"
        lists = (shown, acts)
        if form == "parquet":
            return parquet(path, recommendations=[shown] * rows, interactions=[acts] * rows)
        row = ",".join("|".join(map(str, items)) for items in lists)
        path.write_text("recommendations,interactions\n" + f"{row}\n" * rows)
        return path

    assert "have a 0 or 1 for each recommendation" in error_of(given([7, 8, 1], [0, 1, 0]))
    for shown, acts in (([7, 8, 1], [0, 1]), ([0, 1], [1, 0]), ([7, 8], [0, 2])):
        assert len(readings_of(given(shown, acts), metrics=("mrr",))) == 1
    assert len(readings_of(given([7, 8], [0, 1], rows=9), metrics=("mrr",))) == 1


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


def test_an_unknown_column_is_explained(events: Path) -> None:
    assert "Did you mean 'interactions'" in error_of(events, "--column", "interaction=x")
    assert "give FIELD=COLUMN" in error_of(events, "--column", "interactions")
    twice = error_of(events, "--column", "user=who", "--column", "user=whom")
    assert "--column: 'user' is given twice; give it once." in twice
    assert "unknown field 'gains'" in error_of("events.ndjson", "--column", "gains=x")
    assert "Did you mean 'gains'" in error_of(events, "--column", "gain=worth")
    assert "unknown field 'baseline'" in error_of(events, "--column", "baseline=x")
    for setting in ("format=json", "max_id_bytes=99", "ids=integer"):
        assert "--column: unknown field" in error_of("events.ndjson", "--column", setting)
    said = error_of(events, "--column", "gains=worth")
    assert "name the one that holds the gains with --column gains=NAME" in said


def test_rows_of_items_are_sent_to_their_own_options(tmp_path: Path) -> None:
    (tmp_path / "recs.csv").write_text("user,item,score\nu,a,1\n")
    said = error_of(tmp_path / "recs.csv")
    assert "--column recommendations=NAME, or give rows of users and items" in said
    assert "as --recommendations and --truth" in said
    for option in (("--ties", "id_desc"),):
        assert "for --recommendations with --truth" in error_of(tmp_path / "recs.csv", *option)


def test_metrics_of_fields_that_no_table_has_are_refused(events: Path, tmp_path: Path) -> None:
    typed = "hit_rate(type=buy)@3"
    assert "types of interactions, which tables" in usage_error("evaluate", events, "-m", typed)
    missing = "replay_0_22:unexpectedness@3"
    assert "baseline, which tables cannot have" in usage_error("evaluate", events, "-m", missing)
    config = write_file(tmp_path / "streameval.toml", f'metrics = ["mrr", "{typed}"]\n')
    said = run("evaluate", events, "--config", config).stderr
    assert f"do not use the value of {typed}: it needs types of interactions" in said
    config.write_text('metrics = ["mrr"]\nevent.types = { buy = 5 }\n')
    assert "[event] types are read from JSON lines" in usage_error(
        "evaluate", events, "--config", config
    )
    records = [{"recommendations": [1], "interactions": [1], "other": [1]}]
    path = json_lines(tmp_path / "events.ndjson", records)
    assert "--column baseline=FIELD" in usage_error("evaluate", path, "-m", missing)
    assert (
        readings_of(path, "--column", "baseline=other", metrics=(missing,))[0]["value"] == 1 - 1 / 3
    )
    new = "user_novelty@3"
    assert "history, which tables cannot have" in usage_error("evaluate", events, "-m", new)
    assert "--column history=FIELD" in usage_error("evaluate", path, "-m", new)
    assert readings_of(path, "--column", "history=other", metrics=(new,))[0]["value"] == 0.0


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
    assert "windows, segments and dedup need events; rows of items have none." in done.stderr
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


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("recommendations\na\n", "no column 'interactions'; its columns: recommendations"),
        ("recommendations,interactions\na||b,\n", "line 2, column 'recommendations': found 'a||b'"),
        ("recommendations,interactions,scores\na,,x\n", "line 2, column 'scores': found 'x'"),
        (
            "recommendations,interactions\na,\na|-1|b,\n",
            "line 3: recommendations has an item after",
        ),
        ("recommendations,interactions,scores\na b,,1\n", "scores: give one number for each item"),
        ("recommendations,interactions,positions\na,,0\n", "positions"),
        ("recommendations,recommendations,interactions\na,b,c\n", "2 columns 'recommendations'"),
    ],
)
def test_a_file_that_is_not_a_table_of_events_is_explained(
    tmp_path: Path, content: str, says: str
) -> None:
    path = write_file(tmp_path / "events.csv", content)
    assert says in error_of(path)


@pytest.mark.parametrize(
    ("shown", "says"),
    [
        (pa.array([7]), "column 'recommendations' holds int64"),
        (pa.array([[1.5]]), "recommendations are lists of double; give ids"),
        (pa.array([["a"]]), "ids are integers in interactions of "),
        (pa.array([None], pa.list_(pa.int64())), "recommendations: null is neither a list"),
        (pa.array([[{"id": 1}]]), "recommendations are lists of struct<id: int64>"),
    ],
)
def test_columns_of_parquet_that_hold_no_ids_are_explained(
    tmp_path: Path, shown: Any, says: str
) -> None:
    path = parquet(tmp_path / "events.parquet", recommendations=shown, interactions=[[1]])
    assert says in error_of(path)


def test_contradicting_options_are_explained(events: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.parquet").write_bytes(events.read_bytes()[:-9])
    assert "bad.parquet: " in error_of(tmp_path / "bad.parquet")
    assert "evaluate them separately" in error_of(events, "events.ndjson")
    assert "no column 'campaign'" in error_of(events, "--by", "campaign")
    assert "row 1: label: an array is neither" in error_of(events, "--by", "recommendations")
    assert "no-such.parquet: no such file" in error_of("no-such.parquet")


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


def test_an_estimate_without_its_chances_is_refused(events: Path, tmp_path: Path) -> None:
    (config := tmp_path / "streameval.toml").write_text(CHANCES)
    named = usage_error("evaluate", events, "--config", config, "-m", "ips(target=near)")
    assert "needs 'near' of each item; name its field with --column per_item.near=FIELD" in named
    lines = json_lines(tmp_path / "log.ndjson", [{"recommendations": ["a"], "interactions": []}])
    assert "needs 'team' of each item" in usage_error("evaluate", lines, "-m", "interleaving")
