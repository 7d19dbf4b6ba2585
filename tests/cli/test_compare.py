"""`streameval compare` on files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streameval import Accumulator, Intervals, compare
from streameval.events import Event
from streameval.events.errors import UsageError
from streameval.statistics.intervals import Method
from tests.cli.program import from_csv, from_json, json_lines, printed, run, usage_error
from tests.daemon.running import running

METRICS = ("ctr", "ndcg@3")
TIME = ("--time", "ts", "--time-unit", "s")
DAY = 86_400


def events(
    *,
    users: int = 600,
    lift: float = 0.0,
    strayed: float = 0.0,
    named: bool = True,
    lost: float = 0.0,
) -> Iterator[dict[str, Any]]:
    """Lists of three items over four days; some users of treatment may be missing."""
    random = np.random.default_rng(7)
    for user in range(users):
        taste, side = random.beta(2, 8), user % 2
        for _ in range(int(random.poisson(3)) + 1):
            here = side != (random.random() < strayed)
            chance = taste * (1 + lift * here)
            clicked = [item for item in "abc" if random.random() < chance]
            day = int(random.integers(0, 4))
            if here and user < lost * users:
                continue
            yield {
                "recommendations": ["a", "b", "c"],
                "interactions": clicked,
                "variant": "treatment" if here else "control",
                "ts": 1_750_000_000 + day * DAY,
            } | ({"user": f"u{user}"} if named else {})


@cache
def drawn(**how: Any) -> list[dict[str, Any]]:
    return list(events(**how))


def file_of(folder: Path, **how: Any) -> Path:
    return json_lines(folder / "events.ndjson", drawn(**how))


compared = partial(from_json, "compare")


def as_counted(record: Mapping[str, Any]) -> Event:
    """A record of these files, for an accumulator."""
    recommended, clicked = record["recommendations"], record["interactions"]
    return Event(
        recommendations=recommended,
        interactions=clicked,
        user=record.get("user"),
        ts=record["ts"] * 1_000_000,
    )


def by_hand(path: Path) -> dict[str, Accumulator]:
    arms: dict[str, list[Event]] = {}
    for record in map(json.loads, path.read_text().splitlines()):
        arms.setdefault(record["variant"], []).append(as_counted(record))
    accumulators = {name: Accumulator(*METRICS, intervals=Intervals()) for name in arms}
    for name, arm in arms.items():
        accumulators[name].update_many(arm)
    return accumulators


@pytest.mark.parametrize("method", ["fixed", "anytime"])
def test_json_equals_the_comparison_of_accumulators(tmp_path: Path, method: Method) -> None:
    path = file_of(tmp_path, lift=1.0)
    comparison = compared(path, "-m", "ctr", "-m", "ndcg@3", "--method", method, *TIME)
    arms = by_hand(path)
    for row, metric in zip(comparison["comparisons"][:2], METRICS, strict=True):
        alone = compare(arms["control"], arms["treatment"], metric, method=method)
        assert (row["metric"], row["variant"], row["among"]) == (metric, "treatment", 2)
        assert row["lift_low"] == alone.lift_low
        assert row["evidence"] == alone.evidence
        assert row["verdict"] == "better"
        assert row["control"] == alone.control
        assert row["control"] == pytest.approx(arms["control"].read(metric).value, rel=0.01)
    assert comparison["checks"]["users"] == {"control": 300, "treatment": 300}
    assert comparison["checks"]["trouble"] == []


def test_html_says_when_and_how_it_was_made_and_of_how_many_events(tmp_path: Path) -> None:
    log = file_of(tmp_path, lift=0.5)
    html = run("compare", log, "-m", "ctr", "--format", "html").stdout
    facts = dict(re.findall(r"<div><dt>(\w+)</dt><dd>(.*?)</dd></div>", html))
    with log.open() as lines:
        assert facts["Events"] == f"{sum(1 for _ in lines):,} lists"
    assert facts["Command"] == f"streameval compare {log} -m ctr --format html"
    assert facts["Intervals"] == "fixed, 95 %, precision 2.0 %"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", facts["Date"])


def test_several_looks_are_told_which_method_survives_them(tmp_path: Path) -> None:
    path = file_of(tmp_path)
    assert compared(path, "-m", "ctr")["method"] == "fixed"
    assert compared(path, "-m", "ctr", "--looks", "14")["method"] == "anytime"
    done = run("compare", path, "-m", "ctr", "--looks", "14", "--method", "fixed")
    assert "fixed holds for one look only: for 14 looks use --method anytime" in done.stderr
    assert "--looks" not in run("compare", path, "-m", "ctr", "--method", "fixed").stderr


def by_country(**how: Any) -> list[dict[str, Any]]:
    """Events of two countries; some have none."""
    return [
        event | ({"country": "nl" if index % 2 else "de"} if (index + 1) % 10 else {})
        for index, event in enumerate(drawn(**how))
    ]


@pytest.mark.parametrize("form", ["ndjson", "parquet"])
def test_segments_are_compared_each_by_itself_and_corrected_together(
    tmp_path: Path, form: str
) -> None:
    rows, path = by_country(lift=0.5), tmp_path / f"events.{form}"
    if form == "ndjson":
        json_lines(path, rows)
    else:
        pq.write_table(pa.Table.from_pylist(rows), path)
    arguments = (path, "-m", "ctr", "-m", "ndcg@3")
    comparison = compared(*arguments, "--by", "country", "--primary", "ctr")
    total = compared(*arguments, "--primary", "ctr")
    assert comparison["comparisons"] == total["comparisons"]
    segments = {(row["segment"], row["metric"]): row for row in comparison["segments"]}
    assert {name for name, _ in segments} == {"de", "nl", "__missing__"}
    assert {row["among"] for (name, _), row in segments.items() if name in ("de", "nl")} == {4}
    assert {row["verdict"] for (name, _), row in segments.items() if name == "__missing__"} == {
        "not judged"
    }
    only = json_lines(tmp_path / "nl.ndjson", [row for row in rows if row.get("country") == "nl"])
    (alone,) = compared(only, "-m", "ctr")["comparisons"][:1]
    assert segments["nl", "ctr"]["lift"] == pytest.approx(alone["lift"])
    assert segments["nl", "ctr"]["lift_low"] < alone["lift_low"]
    table = run("compare", *arguments, "--by", "country").stdout
    assert "segment" in table
    assert "treatment: not judged" in table
    rows_of_csv = from_csv("compare", *arguments, "--by", "country")
    assert {row["segment"] for row in rows_of_csv} == {"", "de", "nl", "__missing__"}


def test_a_table_tells_the_promise_the_lifts_and_the_checks(tmp_path: Path) -> None:
    call = ("compare", file_of(tmp_path, lift=0.5), "-m", "ctr", "-m", "ndcg@3", "--primary", "ctr")
    table = printed(*call)
    summary, decision, promise, *_ = table.splitlines()
    assert summary == "treatment is better on 3 of 4 metrics; checks passed."
    assert decision.startswith("Decision: treatment: ship: ctr is better (at most 5 % of such ")
    assert promise.startswith(
        "At most 5 % of verdicts and intervals are wrong, if you look once, at a planned time."
    )
    assert "are wrong, however often you look." in printed(*call, "--method", "anytime")
    assert "ctr *" in table
    assert re.search(r"\+\d+\.\d % to \+\d+\.\d %", table)
    assert "users control 300, treatment 300; planned 50.0 % each, as planned" in table
    assert "None" not in table


def test_csv_has_a_line_for_each_comparison(tmp_path: Path) -> None:
    call = (file_of(tmp_path, lift=0.5), "-m", "ctr", "--guardrail", "ctr=-0.05")
    row, *per_user = from_csv("compare", *call)
    assert [other["metric"] for other in per_user] == ["lists_per_user", "clicks_per_user"]
    total = compared(*call)["comparisons"][0]
    assert float(row["lift_low"]) == total["lift_low"]
    assert (row["guardrail"], row["guardrail_verdict"]) == ("-0.05", "kept")
    assert list(row) == [name for name in total if name not in ("days", "daily", "weekly")]
    assert total["days"] == []
    anytime = compared(*call, *TIME, "--method", "anytime")["comparisons"][0]
    assert anytime["days"][-1]["evidence"] == pytest.approx(anytime["evidence"])


_RAMP = ("2025-06-15:control=3,treatment=1", "2025-06-17:control=1,treatment=1")


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        (["--control", "treatment"], {"control": "treatment"}),
        (["--same-users"], {"same_users": True}),
        (["--within", "half"], {"within": "half"}),
        (["--guardrail", "ctr=-0.1"], {"guardrails": {"ctr": -0.1}}),
        (["--shares", "control=5,treatment=4"], {"shares": {"control": 5, "treatment": 4}}),
        (
            ["--shares", _RAMP[0], "--shares", _RAMP[1]],
            {
                "shares": [
                    {"since": "2025-06-15", "control": 3, "treatment": 1},
                    {"since": "2025-06-17", "control": 1, "treatment": 1},
                ]
            },
        ),
        (
            ["--since", "2025-06-17", "--pre-period", "2"],
            {"since": "2025-06-17", "pre_period": 2},
        ),
    ],
    ids=lambda options: options[0] if isinstance(options, list) else "",
)
def test_an_option_is_a_setting_of_the_experiment_and_decides(
    tmp_path: Path, options: list[str], settings: dict[str, Any]
) -> None:
    rows = [event | {"half": at % 2} for at, event in enumerate(drawn(lift=0.5, strayed=0.1))]
    call = (json_lines(tmp_path / "events.ndjson", rows), "-m", "ctr", *TIME)
    usual, told = compared(*call), compared(*call, *options)
    assert told["experiment"] == usual["experiment"] | settings
    assert told | {"experiment": usual["experiment"]} != usual


def test_fail_on_sets_the_exit_status(tmp_path: Path) -> None:
    call = ("compare", file_of(tmp_path, lift=-0.5), "-m", "ctr", "-m", "ndcg@3")
    assert run(*call, "--fail-on", "worse").returncode == 1
    assert run(*call, "--guardrail", "ctr=-0.1", "--fail-on", "guardrail").returncode == 1
    assert run(*call, "--guardrail", "ctr=-0.1", "--fail-on", "untrusted").returncode == 0
    assert run(*call, "--control", "treatment", "--fail-on", "worse").returncode == 0
    lost = ("compare", file_of(tmp_path, users=2_000, lost=0.2), "-m", "ctr", "--format", "csv")
    done = run(*lost, "--fail-on", "untrusted")
    assert done.returncode == 1
    assert done.stderr.startswith(
        "streameval: do not trust this: users are not split as planned (control 1,000, treatment "
        "800;"
    )


def test_fields_are_named_as_for_evaluate(tmp_path: Path) -> None:
    renamed = (
        {"shown": event["recommendations"], "interactions": event["interactions"]}
        | {"arm": event["variant"], "profile": {"id": event["user"]}}
        for event in drawn(lift=0.5)
    )
    path = json_lines(tmp_path / "other.ndjson", renamed)
    named = ["--label", "arm", "--column", "recommendations=shown", "--column", "user=profile.id"]
    row, *_ = compared(path, "-m", "ctr", *named)["comparisons"]
    usual, *_ = compared(file_of(tmp_path, lift=0.5), "-m", "ctr")["comparisons"]
    assert row["evidence"] == usual["evidence"]


@pytest.mark.parametrize("metrics", [["-m", "ndcg@3"], []])
def test_primary_metrics_and_guardrails_are_counted(tmp_path: Path, metrics: list[str]) -> None:
    decides = ("--primary", "ndcg@3", "--guardrail", "ctr=-0.01")
    rows = compared(file_of(tmp_path), *metrics, *decides)["comparisons"]
    assert [row["metric"] for row in rows[:2]] == ["ndcg@3", "ctr"]
    assert [row["metric"] for row in rows if row["primary"]] == ["ndcg@3"]
    assert [row["metric"] for row in rows if row["guardrail"] is not None] == ["ctr"]
    per_user = compared(file_of(tmp_path), "-m", "ctr", "--primary", "clicks_per_user")
    assert [row["metric"] for row in per_user["comparisons"] if row["primary"]]


@pytest.mark.parametrize(
    ("without", "reason"),
    [
        ("gini@3", "gini@3 is not a mean over lists or items, so it has no interval."),
        ("item_coverage@10", "it is not a mean over lists or items"),
    ],
)
def test_a_metric_without_an_interval_is_left_out(
    tmp_path: Path, without: str, reason: str
) -> None:
    path = file_of(tmp_path)
    done = run("compare", path, "-m", "ctr", "-m", without, "--format", "json")
    metrics = [row["metric"] for row in json.loads(done.stdout)["comparisons"]]
    assert metrics == ["ctr", "lists_per_user", "clicks_per_user"]
    assert done.stderr.startswith(f"streameval: {without} is not compared: {reason}")
    alone = run("compare", path, "-m", without)
    assert alone.returncode == 2
    assert "no metric that can be compared" in alone.stderr


def test_a_table_is_compared_by_day_as_json_lines_are(tmp_path: Path) -> None:
    path, options = tmp_path / "events.parquet", ("-m", "ctr", *TIME)
    pq.write_table(pa.Table.from_pylist(drawn(lift=0.5)), path)
    assert compared(path, *options) == compared(file_of(tmp_path, lift=0.5), *options)


def test_ids_that_never_match_are_reported(tmp_path: Path) -> None:
    record = {"recommendations": ["a", "b"], "interactions": ["A"]}
    arms = ("control", "treatment")
    rows = [record | {"variant": arms[at % 2], "user": at} for at in range(2_400)]
    message = run("compare", json_lines(tmp_path / "events.ndjson", rows), "-m", "ctr").stderr
    assert "variant=control: 1,200 lists with interactions and no hit" in message


def test_options_override_the_experiment_of_a_configuration(tmp_path: Path) -> None:
    rows = [event | {"arm": "ab"[event["variant"] == "treatment"]} for event in drawn(lift=0.5)]
    path, config = json_lines(tmp_path / "events.ndjson", rows), tmp_path / "streameval.toml"
    config.write_text(
        'metrics = ["ctr"]\nlabels = ["variant"]\nintervals = {}\n'
        'source = { type = "files", paths = ["events.ndjson"] }\n'
        '[experiment]\nprimary = ["ctr"]\n'
    )
    arguments = (path, "--config", config)
    plain = compared(*arguments)["comparisons"][0]
    by_arm = compared(*arguments, "--label", "arm", "--control", "a")["comparisons"][0]
    names = dict.fromkeys(("variant", "text", "sentence"))
    assert by_arm | names == plain | names
    row, *_ = compared(*arguments, "-m", "ndcg@3", "--primary", "ndcg@3")["comparisons"]
    assert (row["metric"], row["primary"]) == ("ndcg@3", True)
    both = compared(*arguments, "-m", "ndcg@3")["comparisons"][:2]
    assert [(row["metric"], row["primary"]) for row in both] == [("ndcg@3", False), ("ctr", True)]
    evaluated = run("evaluate", *arguments, "-m", "ndcg@3", "--by", "arm", "--format", "csv")
    assert (evaluated.returncode, evaluated.stdout.count("\n")) == (0, 3), evaluated.stderr


_ANYTIME = ("--format", "json", "--method", "anytime")
CONFIG = """
metrics = ["ctr", "ndcg@10"]
labels = ["variant", "country"]
intervals = {{ precision = 0.05 }}
event = {{ time = "ts", time_unit = "iso8601" }}
source = {{ type = "files", paths = ["events.ndjson"] }}
state = {{ path = "state" }}
web = {{ listen = "127.0.0.1:0" }}
[experiment]
primary = ["ndcg@10"]
guardrails = {{ ctr = -0.05 }}
"""


def test_a_state_compares_like_its_files_bit_for_bit(tmp_path: Path) -> None:
    (tmp_path / "events.ndjson").write_text(run("simulate", "--events", "1500").stdout)
    with running(CONFIG.format(), tmp_path) as daemon:
        daemon.consumed(1_500)
        assert daemon.stop() == 0
    config, state = tmp_path / "streameval.toml", tmp_path / "state"
    saved = run("compare", state, "--format", "json")
    files = run("compare", tmp_path / "events.ndjson", "--config", config, *_ANYTIME)
    assert saved.stdout == files.stdout
    comparison = json.loads(saved.stdout)
    assert (comparison["method"], comparison["precision"]) == ("anytime", 0.05)
    assert comparison["experiment"]["guardrails"] == {"ctr": -0.05}
    assert {row["metric"]: row["primary"] for row in comparison["comparisons"]} == {
        "ctr": False,
        "ndcg@10": True,
        "lists_per_user": False,
        "clicks_per_user": False,
    }
    segments = compared(state, "--by", "country")
    lines = run(
        "compare", tmp_path / "events.ndjson", "--config", config, *_ANYTIME, "--by", "country"
    )
    assert segments["segments"] == json.loads(lines.stdout)["segments"] != []
    message = run("compare", state, "--by", "planet").stderr
    assert "--by planet: neither a label nor a segment of the state: variant, country" in message
    message = run("compare", state, "--label", "arm").stderr
    assert "no such label in the state; its labels: variant, country" in message
    message = run("compare", state, "-m", "ndcg@10", "-m", "mrr").stderr
    assert "-m mrr: not in the state, which has ctr, ndcg@10" in message
    message = run("compare", state, "-m", "value_per_list(cap=p99)").stderr
    assert "cap = 'p99' is known only when all lists are; give a number" in message
    message = usage_error("compare", state, "--time", "ts")
    counted = "is for events; those of a state are counted already."
    assert message == f"streameval: --column {counted}\n"
    with pytest.raises(UsageError, match=rf"^delimiter= {counted}$"):
        compare(state, "ctr", delimiter=";")
    for events in (state, tmp_path / "events.ndjson"):
        message = usage_error("compare", events, "--exclude", tmp_path / "events.ndjson")
        assert message == "streameval: --exclude needs --truth.\n"
        with pytest.raises(UsageError, match=r"^exclude= needs truth=\.$"):
            compare(events, "ctr", exclude=[["a"]])
