"""With previews off and a key of users, nothing that a daemon writes or serves has an id."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from streameval.checkpoints.store import folder_store
from streameval.engine.dead_letters import DeadLetter
from streameval.events.previews import _Setting, describe_traceback
from streameval.events.records import Partition
from tests.cli.program import json_lines, run, write_file
from tests.daemon.leaky import LEAKY
from tests.daemon.running import Running, running

SECRET = "k7Qm2xVf9tLs4RzYb1WnPdUc8HgJe3Ao5"
USERS = [f"person{number:03d}@example.org" for number in range(40)]
MARK = "Ms-Jane-Doe"
"""Somewhere in every invalid record."""

CONFIG = f"""
metrics = ["ctr", "hit_rate@1", "users_covered@1", "{LEAKY}"]
labels = ["variant"]
dedup = "1h"
[intervals]
[windows]
spans = ["5m"]
[source]
type = "files"
paths = ["events.ndjson"]
[event]
time = "ts"
time_unit = "s"
user = "user"
event_id = "id"
scores = "scores"
positions = "positions"
[experiment]
label = "variant"
control = "control"
since = "2026-01-02"
[state]
path = "state"
interval = "1s"
[dead_letters]
max_ratio = 1
[web]
listen = "127.0.0.1:0"
"""
PRIVATE = f'user_key = "${{KEY}}"\n{CONFIG}[log]\npreviews = false\n'


def _valid() -> Iterator[dict[str, Any]]:
    for row in range(4 * len(USERS)):
        user = USERS[row % len(USERS)]
        yield {
            "recommendations": [f"item{row % 7}", "other"],
            "interactions": [f"item{row % 7}"] if row % 3 else [],
            "variant": "treatment" if row % len(USERS) % 2 else "control",
            "ts": 1_767_225_600 + 3_600 * row,
            "user": user,
            "id": f"{user}/{row}",
            "scores": [0.2, 0.1],
            "positions": [1, 2],
        }


def _invalid() -> Iterator[bytes]:
    """Records that are invalid in different ways, and name a person wherever one can."""
    base = next(_valid())
    for wrong in (
        {"recommendations": MARK},
        {"recommendations": [{"id": {MARK: 1}}]},
        {"recommendations": [MARK * 200]},
        {"interactions": {MARK: "much"}},
        {"interactions": [{MARK: 1}]},
        {"interactions": {MARK: 1e308}},
        {"user": {"name": MARK}},
        {"user": MARK * 200},
        {"id": [MARK]},
        {"ts": MARK},
        {"ts": f"2026-13-45 {MARK}"},
        {"variant": [MARK]},
        {"variant": MARK * 100},
        {"scores": [MARK]},
        {"positions": [MARK, 2]},
        {"recommendations": ["leak", "b"], "user": MARK, "id": MARK},
    ):
        yield json.dumps(base | {"id": "x"} | wrong).encode()
    yield from (MARK.encode(), f'"{MARK}"'.encode(), f'["{MARK}"]'.encode())
    yield from (
        f'{{"user": "{MARK}"'.encode(),
        MARK.encode() + b"\xff",
        b"\0\0\0\0\1" + MARK.encode(),
    )
    yield json.dumps(json.dumps({"user": MARK})).encode()
    yield f'{{"user": "{MARK}", "ts": 1e999}}'.encode()


def _outputs(folder: Path, daemon: Running) -> dict[str, bytes]:
    """All that a daemon wrote and serves, by where it is."""
    paths = ("/", "/metrics", "/api/v1/metrics", "/-/ready", "/-/healthy")
    served = {path: daemon.get(path).content for path in paths}
    assert daemon.stop() == 0
    parts = bytearray()
    store = folder_store(folder / "state")
    for shard in store.shards():
        saved = store.newest(shard).saved
        assert saved is not None
        parts += msgspec.json.encode(saved.header)
        for name in saved.digests:
            parts += saved.read(name)
    files = b"".join(file.read_bytes() for file in (folder / "state").rglob("*") if file.is_file())
    return served | {"log": "".join(daemon.log).encode(), "state": bytes(parts) + files}


def _run(
    folder: Path, config: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[dict[str, bytes], Any]:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("KEY", SECRET)
    monkeypatch.setattr(_Setting, "hidden", False)
    monkeypatch.setattr(_Setting, "words", frozenset())
    valid = [json.dumps(event).encode() for event in _valid()]
    records = [*valid, *_invalid()]
    (folder / "events.ndjson").write_bytes(b"\n".join(records) + b"\n")
    with running(config, folder, KEY=SECRET) as daemon:
        document = daemon.consumed(len(records))
        outputs = _outputs(folder, daemon)
    path = folder / "streameval.toml"
    files = ("evaluate", "--config", path, "--allow-invalid", "--format", "json")
    for command in (("check", path), files):
        done = run(*command)
        outputs[command[0]] = f"{done.stdout}\n{done.stderr}".encode()
    return outputs, document


def _outputs_with(outputs: dict[str, bytes], texts: list[str]) -> set[str]:
    return {
        name for name, output in outputs.items() if any(text.encode() in output for text in texts)
    }


def _intervals(rows: list[dict[str, Any]]) -> dict[tuple[str, str], Any]:
    return {
        (row["metric"], row["labels"]["variant"]): row["interval"]
        for row in rows
        if row["window"] == "lifetime"
    }


def test_no_output_of_a_daemon_has_an_id_or_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs, document = _run(tmp_path, PRIVATE, monkeypatch)
    assert sum(document["health"]["invalid"].values()) == len([*_invalid()])
    assert _outputs_with(outputs, [*USERS, MARK, SECRET]) == set()
    offline, _ = json.JSONDecoder().raw_decode(outputs["evaluate"].decode())
    live = document["metrics"]
    # Intervals, of users in groups by their keyed hashes.
    assert _intervals(offline) == _intervals(live)
    assert len({*map(str, _intervals(live).values())}) > 4
    log = outputs["log"].decode()
    assert 'offset=160 detail="recommendations: A field has the wrong type' in log
    assert "KeyError, leaky.py:" in log


@pytest.mark.nightly
def test_without_both_settings_the_same_outputs_have_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs, _ = _run(tmp_path, CONFIG, monkeypatch)
    assert _outputs_with(outputs, [MARK]) == {"log", "check", "evaluate"}
    assert _outputs_with(outputs, USERS) == {"state", "check"}


JOIN = """
metrics = ["hit_rate@1"]
[source]
type = "files"
paths = ["shown.ndjson", "clicks.ndjson"]
[event]
time = "ts"
time_unit = "s"
user = "user"
[attribution]
impressions = "shown.ndjson"
window = "30m"
key = "user_item"
[[attribution.interactions]]
source = "clicks.ndjson"
user = "user"
"""


@pytest.mark.parametrize(("table", "is_quoted"), [("", True), ("[log]\npreviews = false\n", False)])
def test_explain_and_dlq_say_what_happened_without_quoting_a_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str, *, is_quoted: bool
) -> None:
    monkeypatch.setattr(_Setting, "hidden", False)
    impressions = {"ts": 60, "user": MARK, "id": "req", "recommendations": ["it-1", "it-2"]}
    json_lines(tmp_path / "shown.ndjson", [impressions])
    json_lines(tmp_path / "clicks.ndjson", [{"ts": 90, "user": MARK, "item": "it-2", "id": "c"}])
    path = write_file(tmp_path / "streameval.toml", JOIN + table)
    for form in ("table", "json"):
        done = run("explain", MARK, "--config", path, "--format", form)
        assert done.returncode == 0, done.stderr
        assert "rank" in done.stdout
        assert ("it-2" in done.stdout) is is_quoted
    absent = run("explain", f"{MARK}-2", "--config", path)
    assert (MARK in absent.stderr) is is_quoted
    written_earlier = DeadLetter(
        partition=Partition("events", 0),
        offset=7,
        timestamp_ms=None,
        key=None,
        headers=(),
        value=MARK.encode(),
        stage="validate",
        reason="invalid_id",
        message=f'user: "{MARK}" is neither a string nor an integer',
    )
    texts = [written_earlier.why, written_earlier.preview]
    assert [MARK in text for text in texts] == [is_quoted] * 2
    assert texts[0].startswith("user: ")


def test_a_traceback_has_no_message_of_an_error_where_previews_are_hidden(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def raised() -> Exception:
        try:
            try:
                dict[str, int]()[MARK]
            except KeyError:
                int(MARK)
        except ValueError as error:
            return error
        raise AssertionError

    assert f"KeyError: '{MARK}'" in describe_traceback(raised())
    assert f"base 10: '{MARK}'" in describe_traceback(raised())
    monkeypatch.setattr(_Setting, "hidden", True)
    hidden = describe_traceback(raised())
    assert MARK not in hidden
    assert [word in hidden for word in ("KeyError", "ValueError", Path(__file__).name)] == [
        True
    ] * 3
