"""The demo, run as after an installation."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.cli.program import command, in_a_terminal
from tests.effort import PATIENCE
from tests.ports import WEB


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
        for window in ("1m", "5m", "lifetime"):
            assert f'k="10",variant="treatment",window="{window}"' in text
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
        said, wrong = process.communicate()
        assert re.search(r"ctr +.( +0\.\d{4,5} .){3} +[+]\d+\.\d % ", said)
        assert wrong == ""


def test_the_demo_draws_the_variants_in_a_terminal() -> None:
    shown = in_a_terminal("demo", "--seconds", "3", "--listen", "127.0.0.1:0")
    parts = ("control", "placebo", "treatment", "hit_rate@10", "true lift", "/metrics", "Ctrl-C")
    assert [part for part in parts if part not in shown] == []


@pytest.mark.kafka
@pytest.mark.usefixtures("broker")
def test_the_demo_counts_through_a_broker_and_removes_it() -> None:
    with demo("--kafka") as process:
        assert _consumed(_exposition(process)) > 0
        children = psutil.Process(process.pid).children(recursive=True)
        (own,) = (each for each in children if "kafka.Kafka" in each.cmdline())
        folder = Path(own.cwd())
        assert folder.is_dir()
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
    assert not own.is_running()
    assert not folder.exists()


def _exposition(process: subprocess.Popen[str]) -> str:
    """The content of /metrics once the demo has counted lists of each variant."""
    assert process.stdout is not None
    lines = (re.match(r"Prometheus +(http\S+)", line) for line in process.stdout)
    address = next(found[1] for found in lines if found)
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
