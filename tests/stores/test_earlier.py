"""What the release before saved is refused by the release's name, in one sentence."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.cli.program import run, write_file

EARLIER = Path(__file__).parent / "earlier" / "0.1.0"
"""The state of a daemon of that release, after 80 events of its simulator."""

CONFIG = """
metrics = ["ctr", "ndcg@10"]
event = { time = "ts", time_unit = "iso8601" }
source = { type = "simulator", events = 40, seed = 1 }
state = { path = "state" }
web = { listen = "127.0.0.1:0" }
"""
SENTENCE = (
    "state version 2 is not known; this release reads version 5. "
    "Use release 0.1.0, or count its events again"
)


def test_a_daemon_refuses_the_state_of_the_release_before_by_name(tmp_path: Path) -> None:
    shutil.copytree(EARLIER, tmp_path / "state")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.checkpoint")}
    done = run("run", write_file(tmp_path / "streameval.toml", CONFIG))
    assert done.returncode == 2
    assert SENTENCE in done.stderr
    assert 'set [state] on_unknown_version = \\"restart\\"' in done.stderr
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.checkpoint")} == before


def test_commands_refuse_the_state_of_the_release_before_by_name(tmp_path: Path) -> None:
    for command in (("state", "show"), ("state", "verify"), ("state", "export")):
        done = run(*command, EARLIER)
        assert done.returncode != 0, command
        assert SENTENCE in done.stdout + done.stderr, command
    config = write_file(tmp_path / "streameval.toml", CONFIG)
    shutil.copytree(EARLIER, tmp_path / "state")
    checked = run("check", config, "--connect")
    assert checked.returncode == 1
    assert SENTENCE in checked.stderr
