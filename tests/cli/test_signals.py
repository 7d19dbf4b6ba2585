"""Signals to the first process of a container, for which Linux ignores them by default."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.effort import PATIENCE
from tests.house.checkout import ROOT

START = ROOT / "streameval" / "cli" / "start.py"
NAMESPACE = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child")

_IMPORTING = """
import time
print("importing", flush=True)
for _ in range(int({patience} * 100)):
    # A signal that comes just before a sleep does not shorten it.
    time.sleep(0.01)
"""


@contextmanager
def _first_process(*command: str, path: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Run a program as the first process of a namespace; yields its parent and its number."""
    environment = {**os.environ, "PYTHONPATH": str(path)}
    try:
        subprocess.run([*NAMESPACE, "true"], check=True, capture_output=True, timeout=PATIENCE)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no namespaces of processes here")
    with subprocess.Popen(
        [*NAMESPACE, *command], stdout=subprocess.PIPE, text=True, env=environment, cwd=path
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "importing\n"
        (child,) = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
        try:
            yield parent, int(child)
        finally:
            parent.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("command", ["run", "evaluate"])
def test_a_signal_during_imports_ends_the_first_process_of_a_container(
    tmp_path: Path, command: str, number: signal.Signals
) -> None:
    package = tmp_path / "streameval" / "cli"
    package.mkdir(parents=True)
    (tmp_path / "streameval" / "__init__.py").touch()
    (package / "__init__.py").write_text(_IMPORTING.format(patience=PATIENCE))
    call = f"import runpy; runpy.run_path({str(START)!r})['main']()"
    with _first_process(sys.executable, "-c", call, command, path=tmp_path) as (parent, child):
        os.kill(child, number)
        assert parent.wait(PATIENCE) == (0 if command == "run" else 128 + number)


_TWICE = f"""
import time
from itertools import count
from streameval.daemon import StopSignal
with StopSignal(clock=count().__next__).on_signals():
    print("importing", flush=True)
    time.sleep({PATIENCE})
    time.sleep({PATIENCE})
"""


def test_a_second_signal_ends_the_first_process_of_a_container() -> None:
    with _first_process(sys.executable, "-c", _TWICE, path=ROOT) as (parent, child):
        with suppress(ProcessLookupError):
            while parent.poll() is None:
                os.kill(child, signal.SIGTERM)
                time.sleep(0.01)
        assert parent.wait(PATIENCE) == 128 + signal.SIGTERM


def test_an_interrupted_evaluation_says_so_in_a_word() -> None:
    command = [sys.executable, "-m", "streameval", "evaluate", "-", "-m", "ctr"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        # More than a pipe holds, so it is read from now on.
        process.stdin.write(b'{"recommendations": ["a"], "interactions": []}\n' * 50_000)
        process.stdin.flush()
        process.send_signal(signal.SIGINT)
        output = process.communicate(timeout=PATIENCE)
    assert (process.returncode, *output) == (130, b"", b"streameval: interrupted\n")
