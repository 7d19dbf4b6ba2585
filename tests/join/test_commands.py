"""The commands with a join: check, evaluate, explain, demo."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from streameval.engine.snapshot import StreamHealth
from streameval.join.attribution import OUTCOMES
from streameval.testing.broker import Broker
from tests.cli.program import json_lines, printed, run
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


def explained(config: Path, key: str) -> Any:
    done = run("explain", key, "--config", config, "--format", "json")
    assert done.returncode == 0, done.stderr
    (only,) = json.loads(done.stdout).values()
    return only


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


def counted(folder: Path) -> Path:
    """The store of a daemon that has joined the two files to their ends."""
    folder.mkdir()
    json_lines(folder / "impressions.ndjson", SHOWN)
    json_lines(folder / "clicks.ndjson", DONE)
    with running(CONFIG, folder) as daemon:
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
    assert {reading["count"] for reading in json.loads(printed("state", "export", *stores))} == {8}


def test_the_demo_shows_joined_values() -> None:
    done = run(
        *("demo", "--attribution", "--seconds", "6", "--events-per-second", "900"),
        *("--listen", "127.0.0.1:0"),
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"hit_rate@10 .* 0\.\d+ .* 0\.\d+ ", done.stdout), done.stdout


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
