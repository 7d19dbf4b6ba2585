"""A configuration that changes while the daemon runs."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.running import Running, running

CONFIG = """
metrics = [{metrics}]
labels = ["variant"]
{more}
[event]
time = "ts"
time_unit = "iso8601"
[windows]
spans = ["5m"]
[source]
type = "simulator"
seed = 3
events_per_second = 2000
[web]
listen = "127.0.0.1:0"
"""
STATE = """
[state]
path = "{path}"
interval = "1s"
"""


def text(state: str, metrics: str = '"ctr@10"', more: str = "") -> str:
    return CONFIG.format(metrics=metrics, more=more) + state


@pytest.fixture(params=["kept", "not kept"])
def state(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return STATE.format(path=tmp_path / "state") if request.param == "kept" else ""


def reload(daemon: Running, folder: Path, config: str, event: str) -> None:
    told = len(daemon.said(event))
    (folder / "streameval.toml").write_text(config)
    daemon.process.send_signal(signal.SIGHUP)
    daemon.until(lambda: len(daemon.said(event)) > told)


def lifetime(daemon: Running) -> dict[str, Any]:
    entries = daemon.document()["metrics"]
    return {
        each["metric"]: each
        for each in entries
        if each["window"] == "lifetime" and each["labels"] == {"variant": "control"}
    }


def sample(daemon: Running, name: str) -> float:
    lines = [line for line in daemon.get("/metrics").text.splitlines() if line.startswith(name)]
    return float(lines[0].rsplit(" ", 1)[1])


def test_a_metric_that_was_counted_all_along_is_answered_over_all_history(
    tmp_path: Path, state: str
) -> None:
    with running(text(state), tmp_path) as daemon:
        before = daemon.consumed(2_000)["health"]["consumed"]
        reload(daemon, tmp_path, text(state, '"ctr@10", "hit_rate@10"'), "reloaded")
        daemon.until(lambda: "hit_rate@10" in lifetime(daemon))
        found = lifetime(daemon)
        assert found["hit_rate@10"]["since"] is None
        assert found["hit_rate@10"]["lists"] == found["ctr@10"]["lists"]
        assert daemon.document()["health"]["consumed"] >= before
        assert sample(daemon, "streameval_config_last_reload_successful") == 1
        assert daemon.stop() == 0


def test_a_metric_that_needs_more_begins_now_and_says_so(tmp_path: Path, state: str) -> None:
    with running(text(state), tmp_path) as daemon:
        daemon.consumed(2_000)
        changed = text(state, '"ctr@10", "distinct_items@10"')
        reload(daemon, tmp_path, changed, "reloaded")
        daemon.until(lambda: "distinct_items@10" in lifetime(daemon))
        found = lifetime(daemon)
        assert found["distinct_items@10"]["since"] > 1_700_000_000
        assert found["distinct_items@10"]["lists"] < found["ctr@10"]["lists"]
        assert found["ctr@10"]["since"] is None


@pytest.mark.parametrize(
    ("metrics", "more", "problem"),
    [
        ('"no_such_metric"', "", "unknown metric"),
        ('"ctr@10"', 'segments = ["country"]', "segments"),
        ('"ctr@10"', "max_items = 7", "max_items"),
    ],
)
def test_what_cannot_go_on_leaves_the_old_configuration_in_force(
    tmp_path: Path, state: str, metrics: str, more: str, problem: str
) -> None:
    with running(text(state), tmp_path) as daemon:
        daemon.consumed(1_000)
        reload(daemon, tmp_path, text(state, metrics, more), "reload_refused")
        assert problem in daemon.said("reload_refused")[-1]
        consumed = daemon.document()["health"]["consumed"]
        daemon.consumed(consumed + 2_000)
        assert set(lifetime(daemon)) == {"ctr@10"}
        assert sample(daemon, "streameval_config_last_reload_successful") == 0
        assert daemon.stop() == 0


def test_the_level_of_the_log_changes_while_it_runs(tmp_path: Path) -> None:
    with running(text(""), tmp_path) as daemon:
        (tmp_path / "streameval.toml").write_text(text("", more='log_level = "error"'))
        daemon.process.send_signal(signal.SIGHUP)
        daemon.until(lambda: "last_reload_successful 1" in daemon.get("/metrics").text)
        assert daemon.said("reloaded") == []
        reload(daemon, tmp_path, text(""), "reloaded")
        assert daemon.stop() == 0
