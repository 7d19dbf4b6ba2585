"""Damage with right digests: a forged checkpoint is refused, soon and in little memory."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from streameval.config import Config, load
from tests.cli.program import run
from tests.stores.received import events, forge, write_state

CONFIG = """
metrics = ["ctr", "ndcg@2"]
labels = ["variant"]
windows = { spans = ["1h"] }
source = { type = "files", paths = ["events.ndjson"] }
event = { time = "ts", time_unit = "s" }
"""


@pytest.fixture
def config(tmp_path: Path) -> Config:
    path = tmp_path / "streameval.toml"
    path.write_text(CONFIG)
    return load(path)


def nested(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


def with_schema(line: bytes, value: bytes) -> bytes:
    return line.replace(b'"schema":{', b'"schema":{"deep":' + value + b",", 1)


def version(line: bytes, number: bytes) -> bytes:
    return line.replace(b'"version":5', b'"version":' + number, 1)


def written_at(line: bytes, seconds: bytes) -> bytes:
    return re.sub(rb'"written_at":[0-9.e+]+', b'"written_at":' + seconds, line, count=1)


def is_refused(state: Path, problem: str) -> None:
    """Every command that reads the state says so in a line for each fault, and no more."""
    for arguments in (("export", state), ("show", state), ("verify", state)):
        done = run("state", *arguments)
        assert done.returncode in (1, 2), done
        assert "Traceback" not in done.stderr
        lines = done.stderr.splitlines()
        assert [line for line in lines if problem in line], done.stderr
        assert len(lines) <= 2


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"directory": lambda line: version(line, b"9" * 5_000)}, "ValidationError"),
        ({"directory": lambda line: version(line, b'"5"')}, "Expected `int`"),
        ({"directory": lambda line: with_schema(line, nested(100_000))}, "RecursionError"),
        (
            {"directory": lambda line: line.replace(b'"places":[', b'"places":[7,')},
            "ValidationError",
        ),
        ({"directory": lambda line: line.replace(b'"settings":0', b'"settings":5')}, "itself"),
        ({"directory": lambda line: line.replace(b'"round":0', b'"round":9')}, "it is round 0"),
        ({"record": lambda line: line.replace(b'"offset":40', b'"offset":' + b"9" * 5_000)}, ""),
        ({"record": lambda line: line.replace(b'"offset":40', b'"offset":41')}, "is of events[0]"),
        ({"record": lambda line: line.replace(b'"clock":', b'"clock":7' + b"0" * 30)}, "clock"),
        ({"record": lambda line: written_at(line, b"1e308")}, "written_at"),
        ({"directory": lambda line: written_at(line, b"1e308")}, "written_at"),
        ({"parts": lambda _: {}}, "Expected `array`"),
    ],
    ids=[
        *("version of 5,000 digits", "no version", "deep schema", "no place", "no settings"),
        *("later round", "huge offset", "other offset", "huge clock"),
        *("written in a far future", "listed as of a far future", "no parts"),
    ],
)
def test_what_a_forged_file_raises_is_damage(
    tmp_path: Path, config: Config, change: dict[str, Callable[[Any], Any]], problem: str
) -> None:
    state = forge(write_state(tmp_path / "state", config, events(40)), **change)
    is_refused(state, problem)


def test_a_forged_schema_is_damage(tmp_path: Path, config: Config) -> None:
    for number, schema in enumerate(
        [{"metrics": 7}, {"labels": "abc"}, {"windows": {"spans": [0]}}, {"nothing": 1}]
    ):
        state = write_state(tmp_path / f"{number}", config, events(40), schema=schema)
        done = run("state", "export", state)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
        assert done.stderr.startswith("streameval: the schema of the state: the saved state is dam")


def test_deep_content_is_damage(tmp_path: Path, config: Config) -> None:
    deep = b"\x91" * 100_000 + b"\xc0"
    state = write_state(
        tmp_path / "state",
        config,
        events(40),
        parts=lambda parts: parts | {"meta": msgspec.msgpack.encode({"clock": msgspec.Raw(deep)})},
    )
    done = run("state", "export", state)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith("streameval: meta: the saved state is damaged (RecursionError")


def test_a_state_without_a_part_is_damage(tmp_path: Path, config: Config) -> None:
    def headless(parts: dict[str, bytes]) -> dict[str, bytes]:
        return {name: content for name, content in parts.items() if name != "meta"}

    paths = [tmp_path / name for name in ("one", "other")]
    states = [write_state(path, config, events(40), parts=headless) for path in paths]
    for command in (["export"], ["merge", "--into", tmp_path / "merged"]):
        done = run("state", *command, *states)
        assert (done.returncode, done.stdout) == (1, ""), done
        assert "has no part 'meta'" in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("left", ["nothing", "a foreign folder", "a folder named as a round"])
def test_a_store_without_a_checkpoint_is_not_valid(
    tmp_path: Path, config: Config, left: str
) -> None:
    state = write_state(tmp_path / "state", config, events(40))
    (file,) = state.rglob("*.round")
    file.unlink()
    if left == "a folder named as a round":
        file.mkdir()
    elif left == "a foreign folder":
        (state / "rounds" / "lost+found").mkdir()
    done = run("state", "verify", state)
    assert (done.returncode, "all valid" in done.stdout) == (1, False)
    assert "no checkpoint in rounds" in done.stderr


def test_a_size_is_bounded_by_the_file(tmp_path: Path, config: Config) -> None:
    """10^15 bytes would be a MemoryError; what is there is read, and is not what was written."""

    def huge(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
        last = max(part["start"] for part in parts)
        return [part | {"size": 10**15} if part["start"] == last else part for part in parts]

    state = forge(write_state(tmp_path / "state", config, events(40)), parts=huge)
    is_refused(state, "is not what was written")


def test_parts_do_not_share_bytes(tmp_path: Path, config: Config) -> None:
    """Else a table of a megabyte would make gigabytes of parts of one file."""

    def shared(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
        longest = max(parts, key=lambda part: int(part["size"]))
        more = [
            longest | {"name": f"labels/60/{number}", "size": longest["size"] - number}
            for number in range(1, 9)
        ]
        return [*parts, *more]

    state = forge(write_state(tmp_path / "state", config, events(40)), parts=shared)
    is_refused(state, "the record of events[0] contradicts itself")


def test_a_pipe_in_a_store_is_not_waited_for(tmp_path: Path, config: Config) -> None:
    state = write_state(tmp_path / "state", config, events(40))
    (file,) = state.rglob("*.round")
    file.unlink()
    os.mkfifo(file)
    done = run("state", "export", state)
    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stderr


def test_a_state_has_no_more_panes_than_its_windows_hold(tmp_path: Path, config: Config) -> None:
    """An hour of minutes, and one for each of the 252 records that may be ahead of the clock."""

    def more(parts: dict[str, bytes]) -> dict[str, bytes]:
        *_, newest = sorted(name for name in parts if name.startswith("labels/60/"))
        minute = int(newest.rpartition("/")[2])
        return parts | {f"labels/60/{minute - number}": parts[newest] for number in range(500)}

    state = write_state(tmp_path / "state", config, events(40, days=1), parts=more)
    done = run("state", "export", state)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "streameval: labels/: the saved state is damaged (it has 501 panes). Nothing was loaded; "
        "use another copy.\n"
    )
