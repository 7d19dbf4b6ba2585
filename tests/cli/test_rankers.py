"""Shadow rankers on the command line: overlap beside the values, and a sentence for a verdict."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from pyarrow import parquet

from streameval import Accumulator, Intervals, compare
from streameval.config import load
from streameval.evaluation.partials import arrow_table, partials
from streameval.events import Event
from streameval.events.errors import InvalidEventError
from tests.cli.program import from_csv, from_json, json_lines, printed, readings, run
from tests.stores.received import write_state

SENTENCE: Final = "biased to the shown ranker: overlap 50 %"
COLUMN: Final = ("--column", "rankers.challenger=rankings.challenger")
CONFIG: Final = """
metrics = ["ctr"]
intervals = {}
source = { type = "files", paths = ["log.ndjson"] }
state = { path = "state" }
web = { listen = "127.0.0.1:0" }
[event]
rankers = { challenger = "rankings.challenger" }
[experiment]
label = "ranker"
control = "shown"
same_users = true
primary = ["ctr"]
"""


def rows() -> list[dict[str, Any]]:
    """4,000 lists of 2,000 users; the challenger's share half of their items."""
    draw = random.Random(5)
    made = []
    for number in range(4_000):
        recommended = draw.sample("abcdefgh", 2)
        made.append(
            {
                "user": f"u{number % 2_000}",
                "half": number % 2,
                "recommendations": recommended,
                "interactions": [item for item in recommended if draw.random() < 0.4],
                "rankings": {"challenger": [recommended[draw.randrange(2)], "z"]},
            }
        )
    return made


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return json_lines(tmp_path / "log.ndjson", rows())


def fanned(folder: Path) -> Path:
    """The same lists as events of two variants that were shown."""
    variants = []
    for row in rows():
        lists = {"shown": row["recommendations"], **row["rankings"]}
        variants += [{**row, "recommendations": lists[name], "ranker": name} for name in lists]
    return json_lines(folder / "fanned.ndjson", variants)


def test_evaluate_has_a_column_for_each_ranker_and_the_overlap(log: Path) -> None:
    result = {
        (entry["metric"], entry["labels"]["ranker"]): entry
        for entry in readings(log, "-m", "ctr", *COLUMN)
    }
    assert result["overlap", "challenger"]["value"] == 0.5
    assert result["overlap", "shown"]["value"] is None
    assert result["ctr", "challenger"]["note"] == f"B{SENTENCE[1:]}; see ips."
    assert "note" not in result["ctr", "shown"]
    table = run("evaluate", log, "-m", "ctr", *COLUMN).stdout
    assert all(text in table for text in ("challenger", "shown", "overlap", "0.5000"))


def test_no_format_of_compare_has_a_verdict_and_nothing_fails_on_worse(
    log: Path, tmp_path: Path
) -> None:
    arguments = ["-m", "ctr", "--label", "ranker", "--control", "shown", "--primary", "ctr"]
    output = run("compare", fanned(tmp_path), *arguments, "--same-users", "--fail-on", "worse")
    assert output.returncode == 1, "of shown variants, half the clicks are worse"
    table = run("compare", log, *COLUMN, *arguments, "--fail-on", "worse")
    assert (table.returncode, f"challenger: {SENTENCE}" in table.stdout) == (0, True), table
    document = from_json("compare", log, *COLUMN, *arguments)
    row = document["comparisons"][0]
    assert (row["metric"], row["verdict"], row["lift"]) == ("ctr", "do not trust", None)
    assert (row["sentence"], row["overlap"]) == (f"B{SENTENCE[1:]}; see ips.", 0.5)
    first, *_ = from_csv("compare", log, *COLUMN, *arguments)
    assert (first["verdict"], first["text"]) == ("do not trust", f"challenger: {SENTENCE}")
    html = run("compare", log, *COLUMN, *arguments, "--format", "html").stdout
    assert SENTENCE in " ".join(html.split())


def test_a_gap_between_rankers_leaves_out_what_was_not_shown(log: Path) -> None:
    output = run("gaps", log, *COLUMN, "-m", "ctr", "--by", "ranker").stdout
    assert f"B{SENTENCE[1:]}; see ips." in output
    assert "fewer than two values can be compared" in output


def test_segments_and_plans_are_of_the_lists_that_were_shown(log: Path) -> None:
    arguments = ["-m", "ctr", "--label", "ranker", "--control", "shown", "--by", "half", *COLUMN]
    segments = from_json("compare", log, *arguments)["segments"]
    assert {row["verdict"] for row in segments} == {"do not trust"}
    plan = run("plan", log, "-m", "ctr", *COLUMN)
    assert "overlap" not in plan.stdout + plan.stderr


def test_a_saved_state_compares_and_reads_like_its_log(log: Path, tmp_path: Path) -> None:
    config = tmp_path / "streameval.toml"
    config.write_text(CONFIG)
    saved = from_json("compare", write_state(tmp_path / "state", load(config), rows()))
    assert saved == from_json("compare", log, "--config", config, "--method", "anytime")
    assert f"challenger: {SENTENCE}" in [row["text"] for row in saved["comparisons"]]


def accumulators(*metrics: str) -> tuple[Accumulator, Accumulator]:
    """The lists shown, and those of the challenger."""
    shown, challenger = (Accumulator("ctr", *metrics, intervals=Intervals()) for _ in range(2))
    for row in rows():
        common = {"user": row["user"]}
        shown.update(row["recommendations"], row["interactions"], **common)
        other = row["rankings"]["challenger"]
        instead = row["recommendations"]
        challenger.update(other, row["interactions"], shown_instead=instead, **common)
    return shown, challenger


def test_python_refuses_a_verdict_too() -> None:
    shown, challenger = accumulators("overlap")
    assert compare(shown, challenger, "ctr").verdict == "do not trust"
    judged = compare(challenger, shown, "ctr")
    assert (judged.reason, judged.overlap) == (f"B{SENTENCE[1:]}; see ips.", 0.5)
    assert {row.verdict for row in compare(shown, challenger).values()} == {"do not trust"}
    assert compare(shown, shown, "ctr").verdict != "do not trust"


def test_lists_that_were_not_shown_need_the_metric_that_tells_so() -> None:
    bare = Accumulator("ctr")
    with pytest.raises(InvalidEventError, match="needs the metric 'overlap'"):
        bare.update(["a"], [], shown_instead=["b"])
    event = Event(recommendations=["a"], interactions=[], shown_instead=["b"])
    with pytest.raises(InvalidEventError, match="needs the metric 'overlap'"):
        bare.update_many([event])
    assert bare.lists == 0


def test_a_table_may_say_what_was_shown_instead() -> None:
    accumulator = Accumulator("ctr", "overlap")
    accumulator.update_many(
        pa.table(
            {
                "recommendations": [["a", "b"], ["a"], []],
                "interactions": [["b"], [], ["c"]],
                "shown_instead": [["b", "c"], None, ["a"]],
            }
        )
    )
    reading = accumulator.read("overlap")
    assert (reading.value, reading.count, reading.lists) == (0.25, 2, 3)


def test_backfills_are_split_by_ranker_and_exports_say_what_evaluate_says(tmp_path: Path) -> None:
    made = rows()[:300]
    config = CONFIG.partition("[experiment]")[0].replace("intervals = {}", "")
    (tmp_path / "streameval.toml").write_text(config)
    write_state(tmp_path / "state", load(tmp_path / "streameval.toml"), made[200:])
    before: dict[str, list[Any]] = {"ranker": [], "recommendations": [], "interactions": []}
    instead: list[Any] = []
    for row in made[:200]:
        before["ranker"] += ["shown", "challenger"]
        before["recommendations"] += [row["recommendations"], row["rankings"]["challenger"]]
        before["interactions"] += [row["interactions"]] * 2
        instead += [None, row["recommendations"]]
    table = pa.table({**before, "shown_instead": pa.array(instead, pa.list_(pa.string()))})
    counted = partials([table], "ctr", "overlap", by=["ranker"])
    parquet.write_table(arrow_table(counted), tmp_path / "before.parquet")
    options = ("--backfill", tmp_path / "before.parquet", "--into", tmp_path / "joined")
    printed("state", "merge", tmp_path / "state", *options)
    full_log = json_lines(tmp_path / "whole.ndjson", made)
    evaluated = run(
        "evaluate", full_log, "--config", tmp_path / "streameval.toml", "--format", "json"
    )
    assert run("state", "export", tmp_path / "joined").stdout == evaluated.stdout
