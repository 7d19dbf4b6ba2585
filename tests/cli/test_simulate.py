"""Simulated events: printed, as two streams in a folder, and in the demo."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest

from streameval.cli.app import status
from streameval.sources.simulated_streams import line, streams
from tests.cli.program import command, in_a_terminal, printed, run, usage_error
from tests.effort import PATIENCE
from tests.ports import WEB
from tests.sources.test_streams import truth

_FILES = {"impressions.ndjson", "interactions.ndjson", "streameval.toml"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("streams") / "a" / "b"
    assert f"evaluate --config {made / 'streameval.toml'}" in printed("simulate", "--streams", made)
    return made


def _written(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_equal_seeds_give_equal_files(tmp_path: Path) -> None:
    for name, seed in (("first", "4"), ("again", "4"), ("other", "5")):
        arguments = ["--streams", str(tmp_path / name), "--seed", seed, "--events", "60"]
        assert status(["simulate", *arguments]) == 0
    first, again, other = (_written(tmp_path / name) for name in ("first", "again", "other"))
    assert set(first) == _FILES
    assert first == again
    assert {name for name in _FILES if other[name] == first[name]} == {"streameval.toml"}


def test_both_streams_are_written_line_by_line(folder: Path) -> None:
    made = streams(1000, 0)
    for name, log in (("impressions", made.impressions), ("interactions", made.interactions)):
        lines = (folder / f"{name}.ndjson").read_bytes().splitlines()
        assert lines == [line(event) for event in log]


def test_check_accepts_the_configuration(folder: Path) -> None:
    assert status(["check", str(folder / "streameval.toml")]) == 0


def test_evaluate_finds_the_truth(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = truth(streams(1000, 0))
    config = str(folder / "streameval.toml")
    assert status(["evaluate", "--config", config, "--format", "json"]) == 0
    captured = capsys.readouterr()
    readings_by_name = {
        (reading["metric"], reading["labels"]["variant"]): (reading["value"], reading["count"])
        for reading in json.loads(captured.out)
    }
    for name, variant in expected.variants.items():
        lists = variant.lists
        assert readings_by_name["hit_rate", name] == (variant.hits / lists, lists)
        assert readings_by_name["hit_rate(type=purchase)", name] == (
            variant.purchases / lists,
            lists,
        )
        assert readings_by_name["value_per_list", name] == (variant.gain / lists, lists)
    invalid = expected.impressions["invalid"] + expected.interactions["invalid"]
    assert f"{invalid} of " in captured.err


def test_existing_files_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "streameval.toml").write_text("mine")
    message = usage_error("simulate", "--streams", tmp_path)
    assert f"{tmp_path}: streameval.toml exists already; name another folder" in message
    assert _written(tmp_path) == {"streameval.toml": b"mine"}


def test_every_line_is_an_event_of_a_thousand_by_default() -> None:
    assert run("simulate").stdout.count("\n") == 1000
    done = run("simulate", "--events", "50")
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert (len(records), done.stderr) == (50, "")
    assert {record["variant"] for record in records} == {"control", "placebo", "treatment"}
    assert all(len(record["recommendations"]) == 20 for record in records)


def test_live_events_equal_those_of_the_seed_with_current_times() -> None:
    before = datetime.now(UTC)
    options = ("--events", "50", "--seed", "3")
    live = run("simulate", *options, "--events-per-second", "1000000").stdout.splitlines()
    lines = run("simulate", *options).stdout.splitlines()
    times = [datetime.fromisoformat(json.loads(line)["ts"]) for line in live]
    assert times == sorted(times)
    assert before <= times[0] <= times[-1] <= datetime.now(UTC)
    assert [{**json.loads(line), "ts": ""} for line in live] == [
        {**json.loads(line), "ts": ""} for line in lines
    ]


@contextmanager
def demo(*options: str) -> Iterator[subprocess.Popen[str]]:
    """The demo as a process, which is killed at the end if necessary."""
    with subprocess.Popen(
        command("demo", "--listen", "127.0.0.1:0", *options),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_the_demo_serves_values_until_ctrl_c() -> None:
    with demo("--events-per-second", "500") as process:
        text = _exposition(process)
        assert _consumed(text) > 0
        assert re.search(
            r'^streameval_ctr_count\{.*variant="treatment".*\} [1-9]', text, re.MULTILINE
        )
        for window in ("1m", "5m", "lifetime"):
            assert f'k="10",variant="treatment",window="{window}"' in text
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
        output, wrong = process.communicate()
        assert re.search(r"ctr +.( +0\.\d{4,5} .){3}", output)
        assert re.search(r"True lifts of treatment: ctr [+]\d+\.\d %, ", output)
        assert wrong == ""


def test_the_demo_fits_a_small_terminal_with_its_links_first() -> None:
    call = ("demo", "--seconds", "3", "--listen", "127.0.0.1:0", "--events-per-second", "2000")
    output = in_a_terminal(*call, columns=80, lines=24)
    last = output.rpartition("page  ")[2]
    lines = last.strip().splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert "/metrics" in lines[1]
    assert "treatment is better on " in last
    for metric in ("ctr", "hit_rate@10", "item_coverage@5"):
        assert re.search(rf"│ {metric} +│( +0\.\d+ +│){{3}}", last)
    assert "Ctrl-C" in lines[-1]


@pytest.mark.kafka
@pytest.mark.usefixtures("broker")
def test_the_demo_counts_through_a_broker_and_removes_it() -> None:
    with demo("--kafka") as process:
        assert _consumed(_exposition(process)) > 0
        children = psutil.Process(process.pid).children(recursive=True)
        (broker,) = (child for child in children if "kafka.Kafka" in child.cmdline())
        folder = Path(broker.cwd())
        assert folder.is_dir()
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
    assert not broker.is_running()
    assert not folder.exists()


def _exposition(process: subprocess.Popen[str]) -> str:
    """The content of /metrics once the demo has counted lists of each variant."""
    assert process.stdout is not None
    lines = (re.match(r"Prometheus +(http\S+)", line) for line in process.stdout)
    address = next(matched[1] for matched in lines if matched)
    counted = r'^streameval_ctr_window_support\{.*variant="treatment".*\} [1-9]'
    until = time.monotonic() + PATIENCE
    while not re.search(counted, text := WEB.get(address).text, re.MULTILINE):
        assert time.monotonic() < until, text
        time.sleep(0.1)
    return text


def _consumed(text: str) -> float:
    counted = re.search(r"^streameval_events_consumed_total (\S+)$", text, re.MULTILINE)
    assert counted is not None
    return float(counted[1])
