"""The commands with a join: check, evaluate, explain, demo."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from streameval.config import load
from streameval.engine.snapshot import StreamHealth
from streameval.events.errors import ConfigError
from streameval.join.options import OUTCOMES
from streameval.testing.broker import Broker
from tests.cli.program import run
from tests.daemon.running import running
from tests.kafka.topics import create, fill

HOUR = 3_600_000
SHOWN = [
    {"ts": 0, "request_id": "clicked", "user": "u1", "recommendations": ["a", "b"]},
    {"ts": 1_000, "request_id": "unclicked", "user": "u2", "recommendations": ["c"]},
    {"ts": HOUR, "request_id": "open", "user": "u3", "recommendations": ["d"]},
    {"ts": HOUR + 5, "request_id": "newest", "user": "u4", "recommendations": ["d"]},
]
MANY = [
    {"ts": HOUR + second, "request_id": f"r{second}", "recommendations": ["d"]}
    for second in range(21)
]
LATE = {"ts": 2_000, "request_id": "late", "user": "u5", "recommendations": ["d"]}
AHEAD = {"ts": 2 * HOUR, "request_id": "ahead", "user": "u5", "recommendations": ["d"]}
DONE = [
    {"ts": 60_000, "request_id": "clicked", "item": "b", "type": "click"},
    {"ts": 61_000, "request_id": "clicked", "item": "x", "type": "click"},
    {"ts": 62_000, "request_id": "clicked", "item": "a", "type": "view"},
    {"ts": 63_000, "request_id": "nobody", "item": "a", "type": "click"},
    {"ts": HOUR + 10_000, "request_id": "open", "item": "d", "type": "click"},
]
CONFIG = """
metrics = ["hit_rate@1", "hit_rate@2"]
[source]
type = "files"
paths = ["impressions.ndjson", "clicks.ndjson"]
[event]
time = "ts"
time_unit = "ms"
[attribution]
impressions = "impressions.ndjson"
window = "30m"
[[attribution.interactions]]
source = "clicks.ndjson"
types = { click = 1 }
[state]
path = "state"
[web]
listen = "127.0.0.1:0"
"""


def written(place: Path, shown: list[dict[str, Any]]) -> Path:
    for name, records in {"impressions": shown, "clicks": DONE}.items():
        lines = "".join(f"{json.dumps(record)}\n" for record in records)
        (place / f"{name}.ndjson").write_text(lines)
    (place / "streameval.toml").write_text(CONFIG)
    return place / "streameval.toml"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files, and a configuration that joins them."""
    return written(tmp_path_factory.mktemp("explained"), SHOWN).parent


@pytest.fixture(scope="module")
def config(folder: Path) -> Path:
    return folder / "streameval.toml"


def explained(config: Path, key: str) -> Any:
    done = run("explain", key, "--config", config, "--format", "json")
    assert done.returncode == 0, done.stderr
    (only,) = json.loads(done.stdout).values()
    return only


def test_a_request_with_and_without_clicks(config: Path) -> None:
    explanation = explained(config, "clicked")
    lists = [(shown["items"], shown["outcome"]) for shown in explanation["lists"]]
    assert lists == [(["a", "b"], "counted")]
    records = [
        (record["item"], record["outcome"], record["rank"]) for record in explanation["records"]
    ]
    assert records == [("b", "counted", 2), ("x", "counted", None), ("a", "ignored", None)]
    explanation = explained(config, "unclicked")
    assert [shown["outcome"] for shown in explanation["lists"]] == ["counted"]
    assert explanation["records"] == []


@pytest.mark.parametrize(
    ("key", "outcome"), [("late", "late"), ("ahead", "future"), ("nobody", "orphan")]
)
def test_a_rejected_record(tmp_path: Path, key: str, outcome: str) -> None:
    after = [{**record, "request_id": f"after {record['request_id']}"} for record in MANY]
    config = written(tmp_path, [*SHOWN, *MANY, AHEAD, LATE, *after])
    explanation = explained(config, key)
    assert explanation["lists"] == []
    assert [record["outcome"] for record in explanation["records"]] == [outcome]


def test_an_explanation_as_text(config: Path) -> None:
    text = run("explain", "clicked", "--config", config).stdout
    assert "items   a, b" in text
    assert "click b: counted. It is part of the event, at rank 2." in text
    assert "with an item that the list did not show" in text


def test_a_key_without_records(config: Path) -> None:
    done = run("explain", "never", "--config", config)
    assert done.returncode == 1
    assert "no record of 'never' in " in done.stderr


def test_a_key_without_records_names_every_log_that_was_read(tmp_path: Path) -> None:
    config = written(tmp_path, SHOWN)
    (tmp_path / "more.ndjson").write_text("")
    text = config.read_text().replace('"clicks.ndjson"]', '"clicks.ndjson", "more.ndjson"]')
    both = 'source = ["clicks.ndjson", "more.ndjson"]'
    config.write_text(text.replace('source = "clicks.ndjson"', both))
    done = run("explain", "never", "--config", config)
    assert re.findall(r"(\w+)\.ndjson", done.stderr) == ["impressions", "clicks", "more"]


def test_files_do_not_take_a_start_time(config: Path) -> None:
    done = run("explain", "clicked", "--config", config, "--since", "2026-01-31T08:00:00+00:00")
    assert (done.returncode, "only Kafka topics" in done.stderr) == (2, True)


def test_topics_are_explained_up_to_their_end(broker: Broker, tmp_path: Path) -> None:
    topics = {
        '"impressions.ndjson"': create(broker, partitions=2),
        '"clicks.ndjson"': create(broker, partitions=2),
    }
    late = {"ts": HOUR + 10_000, "request_id": "nobody", "item": "d", "type": "view"}
    for topic, records in zip(
        topics.values(), ([*SHOWN, *MANY], [*DONE, *[late] * 21]), strict=True
    ):
        fill(broker, topic, {0: [json.dumps(record).encode() for record in records]})
    text = CONFIG.replace('type = "files"', 'type = "kafka"').replace("paths = ", "topics = ")
    for name, topic in topics.items():
        text = text.replace(name, f'"{topic}"')
    config = tmp_path / "streameval.toml"
    config.write_text(f'{text}[source.kafka]\nbootstrap_servers = "{broker.bootstrap_servers}"\n')
    clicked, opened = explained(config, "clicked"), explained(config, "open")
    assert [shown["outcome"] for shown in clicked["lists"]] == ["counted"]
    assert [record["outcome"] for record in clicked["records"]] == ["counted", "counted", "ignored"]
    assert [(shown["items"], shown["outcome"]) for shown in opened["lists"]] == [(["d"], "open")]
    assert opened["lists"][0]["complete_at"] == 1_000 * (HOUR + 32 * 60_000), "window and lateness"
    assert [
        (record["item"], record["rank"], record["outcome"]) for record in opened["records"]
    ] == [("d", 1, "open")]
    later = run("explain", "clicked", "--config", config, "--since", "2999-01-01T00:00:00+00:00")
    assert (later.returncode, "no record of 'clicked'" in later.stderr) == (1, True)
    wrong = run("explain", "clicked", "--config", config, "--since", "yesterday")
    assert (wrong.returncode, "--since: found 'yesterday'" in wrong.stderr) == (2, True)


def test_without_a_join_there_is_nothing_to_explain(tmp_path: Path) -> None:
    config = tmp_path / "streameval.toml"
    config.write_text('metrics = ["ctr"]\n[source]\ntype = "simulator"\n')
    done = run("explain", "r1", "--config", config)
    assert (done.returncode, "no [attribution]" in done.stderr) == (2, True)


def test_files_are_found_by_the_names_of_their_streams(folder: Path, tmp_path: Path) -> None:
    config = tmp_path / "kafka.toml"
    text = CONFIG.replace(".ndjson", "").replace('type = "files"', 'type = "kafka"')
    text = text.replace("paths = ", "topics = ")
    config.write_text(text + '[source.kafka]\nbootstrap_servers = "127.0.0.1:1"\n')
    paths = [str(folder / name) for name in ("clicks.ndjson", "impressions.ndjson")]
    done = run("evaluate", *paths, "--config", config, "--format", "json")
    readings = {reading["metric"]: reading["value"] for reading in json.loads(done.stdout)}
    assert readings == {"hit_rate@1": 0.25, "hit_rate@2": 0.5}
    lone = run("evaluate", paths[0], "--config", config)
    assert (lone.returncode, "impressions.ndjson" in lone.stderr) == (2, True)
    wrong = run("evaluate", *paths, str(folder / "streameval.toml"), "--config", config)
    assert (wrong.returncode, "[attribution] joins no stream of this name" in wrong.stderr) == (
        2,
        True,
    )


def counted(folder: Path) -> Path:
    """The store of a daemon that has joined the two files to their ends."""
    folder.mkdir()
    config = written(folder, SHOWN).read_text()
    with running(config, folder) as daemon:
        daemon.consumed(len(SHOWN) + len(DONE))
        assert daemon.stop() == 0
    return folder / "state"


def test_a_state_is_read_whatever_the_streams_are_called_now(tmp_path: Path) -> None:
    state, other = counted(tmp_path / "here"), tmp_path / "other.toml"
    joined_alike = CONFIG.replace("impressions.ndjson", "imps").replace("clicks.ndjson", "clks")
    alone = CONFIG[: CONFIG.index("[attribution]")].replace(', "clicks.ndjson"', "")
    values = run("state", "export", state).stdout
    assert '"count": 4' in values
    for text in (joined_alike, alone):
        other.write_text(text)
        done = run("state", "export", state, "--config", other)
        assert (done.returncode, done.stdout, done.stderr) == (0, values, "")


def test_states_of_streams_with_unlike_names_are_read_as_one(tmp_path: Path) -> None:
    stores = [counted(tmp_path / "eu"), counted(tmp_path / "us")]
    done = run("state", "export", *stores)
    assert (done.returncode, done.stderr) == (0, "")
    assert {reading["count"] for reading in json.loads(done.stdout)} == {8}


def test_two_fields_may_share_a_path(folder: Path) -> None:
    config = folder / "shared.toml"
    config.write_text(CONFIG.replace("types =", 'item = "request_id"\ntypes ='))
    done = run("evaluate", "--config", config, "--format", "json")
    assert (done.returncode, done.stderr) == (0, "")


def test_spans_of_joined_files(folder: Path) -> None:
    config = folder / "streameval.toml"
    done = run("evaluate", "--config", config, "--every", "1h", "--format", "json")
    assert done.returncode == 0, done.stderr
    values = [
        reading["value"] for reading in json.loads(done.stdout) if reading["metric"] == "hit_rate@2"
    ]
    assert values == [0.5, 0.5]


_WINDOW = 'window = "30m"'
_CONTRADICTIONS = [
    ('impressions = "impressions.ndjson"', 'impressions = "lists.ndjson"', "impressions"),
    ('impressions = "impressions.ndjson"', "impressions = []", "impressions"),
    ('source = "clicks.ndjson"', 'source = "impressions.ndjson"', "impressions"),
    ('source = "clicks.ndjson"', "source = []", "interactions[0].source"),
    ('source = "clicks.ndjson"', 'source = "clicks.ndjson"\nitems = "x"', "interactions[0].items"),
    ("{ click = 1 }", "{ click = nan }", "interactions[0].types.click"),
    ("{ click = 1 }", '{ click = "a" }', "interactions[0].types.click"),
    ("{ click = 1 }", '{ click = 1 }\nignore = ["click"]', "interactions[0].ignore"),
    (_WINDOW, 'window = "0s"', "window"),
    (_WINDOW, 'per = ["variant"]', "per"),
    (_WINDOW, 'key = "user_item"\nper = ["variant"]', "per[0]"),
    (_WINDOW, 'request_id = "a..b"', "request_id"),
]


@pytest.mark.parametrize(("text", "other", "key"), _CONTRADICTIONS)
def test_a_contradiction_is_refused_by_its_key(
    tmp_path: Path, text: str, other: str, key: str
) -> None:
    config = tmp_path / "streameval.toml"
    assert text in CONFIG
    config.write_text(CONFIG.replace(text, other))
    with pytest.raises(ConfigError) as refused:
        load(config)
    assert refused.value.key == f"attribution.{key}"


def test_a_join_needs_event_time_and_logs(tmp_path: Path) -> None:
    config = tmp_path / "streameval.toml"
    config.write_text(CONFIG.replace('time = "ts"\ntime_unit = "ms"\n', ""))
    with pytest.raises(ConfigError) as refused:
        load(config)
    assert refused.value.key == "event.time"
    paths = 'type = "files"\npaths = ["impressions.ndjson", "clicks.ndjson"]'
    config.write_text(CONFIG.replace(paths, 'type = "simulator"'))
    with pytest.raises(ConfigError) as refused:
        load(config)
    assert refused.value.key == "attribution"


def test_the_demo_shows_joined_values() -> None:
    done = run(
        *("demo", "--attribution", "--seconds", "10", "--events-per-second", "300"),
        *("--listen", "127.0.0.1:0"),
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"hit_rate@10 .* 0\.\d+ .* 0\.\d+ ", done.stdout), done.stdout


@pytest.mark.parametrize(
    ("field", "why"),
    [
        ('item = "sku"', "are invalid"),
        ('request_id = "item"', "belong to no list"),
        ("types = { buy = 1 }", "have a type that does not count"),
    ],
)
@pytest.mark.parametrize("every", [(), ("--every", "1h")])
def test_losing_most_interactions_through_a_wrong_field_warns_and_fails(
    tmp_path: Path, field: str, why: str, every: tuple[str, ...]
) -> None:
    config = written(tmp_path, [*MANY, SHOWN[0]])
    clicks = [
        {**DONE[4], "request_id": f"r{number}", "ts": HOUR + 10_000 + number}
        for number in range(20)
    ]
    (tmp_path / "clicks.ndjson").write_text("\n".join(map(json.dumps, clicks)))
    call: tuple[str | Path, ...] = ("evaluate", "--config", config, "--format", "json", *every)
    right = run(*call)
    assert (right.returncode, "count in no list" in right.stderr) == (0, False)
    options = field if "types" in field else f"{field}\ntypes = {{ click = 1 }}"
    config.write_text(CONFIG.replace("types = { click = 1 }", options))
    done = run(*call)
    assert done.returncode == 1
    told = f"clicks.ndjson: 20 of 20 interactions count in no list (20 {why}): do the fields"
    assert done.stderr.count(told) == 1
    assert "--allow-invalid accepts the values" in done.stderr
    anyway = run(*call, "--allow-invalid")
    assert (anyway.returncode, anyway.stdout) == (0, done.stdout)


@pytest.mark.parametrize(
    ("outcomes", "still_open", "by_request", "told"),
    [
        ({"counted": 9, "orphan": 10}, 0, True, "10 of 19"),
        ({"counted": 10, "orphan": 10}, 0, True, None),
        ({"orphan": 9}, 0, True, None),
        ({"counted": 1, "orphan": 1_000}, 0, False, None),
        ({"orphan": 1_000}, 0, False, "1,000 of 1,000"),
        ({"counted": 5, "orphan": 5, "invalid": 11}, 0, False, "of 21"),
        ({"counted": 1, "ignored": 1_000}, 0, True, None),
        ({"ignored": 1_000}, 0, True, "1,000 of 1,000"),
        ({"orphan": 4, "ignored": 188}, 267, True, None),
        ({"orphan": 4, "ignored": 188}, 0, True, "192 of 192"),
    ],
)
def test_losing_most_interactions_is_warned_about(
    outcomes: dict[str, int], still_open: int, *, by_request: bool, told: str | None
) -> None:
    counts = dict.fromkeys(OUTCOMES, 0) | outcomes
    stream = StreamHealth(name="clicks", outcomes=counts, open=still_open, outside=0)
    warning = stream.warning(by_request=by_request)
    assert warning is None if told is None else told in str(warning)
