"""What the daemon tells: a log line per event, and messages to systemd through a real socket."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import signal
import socket
import uuid
import warnings
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from streameval.daemon.assembly import assemble
from streameval.daemon.log import Logfmt, configure, emit
from streameval.daemon.site import MemoryWarning
from streameval.daemon.systemd import Supervisor
from streameval.events.records import RecordBatch
from streameval.exporters.memory import MemoryUse
from streameval.exporters.web import Server
from tests.daemon.manual_time import CONFIG, HIT, Countdown, ManualTime, Script, loop_of
from tests.daemon.running import running
from tests.effort import PATIENCE
from tests.ports import WEB

_PAIR = re.compile(r'([a-z_]+)=("(?:[^"\\]|\\.)*"|[^\s"=]+)(?: |\Z)')


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    stream = io.StringIO()
    configure(stream=stream)
    yield stream
    root.handlers[:], root.level = before
    logging.captureWarnings(capture=False)


def parsed(line: str) -> dict[str, str]:
    pairs = _PAIR.findall(line)
    assert "".join(f"{key}={value} " for key, value in pairs).strip() == line
    return {key: json.loads(value) if value[0] == '"' else value for key, value in pairs}


def test_memory_near_its_limit_is_logged_once_until_it_has_fallen(lines: io.StringIO) -> None:
    uses = [[MemoryUse(used, 1_000), MemoryUse(1, 9_000)] for used in (790, 800, 990, 750, 990)]
    uses += [[MemoryUse(used, 1_000)] for used in (690, 810)] + [[]]
    warning = MemoryWarning(iter(uses).__next__)
    for _ in uses:
        warning.observe()
    used = [parsed(line)["used_bytes"] for line in lines.getvalue().splitlines()]
    assert used == ["800", "810"]


def test_no_request_of_the_http_client_and_no_password_of_a_url_is_logged(
    lines: io.StringIO,
) -> None:
    app = Starlette(routes=[Route("/", lambda _: Response())])
    with Server(app, "127.0.0.1:0") as server:
        assert WEB.get(server.address.replace("://", "://me:s3cret@")).status_code == 200
    logging.getLogger("another").warning("cannot reach http://me:s3@cret@host:1/path")
    (line,) = lines.getvalue().splitlines()
    assert parsed(line)["message"] == "cannot reach http://***@host:1/path"


def test_an_event_has_time_level_name_and_fields(lines: io.StringIO) -> None:
    emit(logging.WARNING, "source_trouble", trouble="no broker", topic=None, tries=3)
    fields = parsed(lines.getvalue().rstrip("\n"))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", fields.pop("ts"))
    assert fields == {
        "level": "warning",
        "event": "source_trouble",
        "trouble": "no broker",
        "tries": "3",
    }


def test_a_line_of_another_library_is_a_message(lines: io.StringIO) -> None:
    logging.getLogger("elsewhere").error("it is %s", "late")
    fields = parsed(lines.getvalue().rstrip("\n"))
    assert (fields["event"], fields["logger"]) == ("message", "elsewhere")
    assert fields["message"] == "it is late"


def test_a_warning_of_python_is_a_line(lines: io.StringIO) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(capture=True)
        warnings.warn("two kinds of ids", UserWarning, stacklevel=1)
    assert "two kinds of ids" in parsed(lines.getvalue().rstrip("\n"))["message"]


def test_an_error_with_its_traceback_stays_on_one_line(lines: io.StringIO) -> None:
    try:
        Path("gone\naway").read_bytes()
    except OSError:
        logging.getLogger("elsewhere").exception("failed")
    assert lines.getvalue().count("\n") == 1
    assert "No such file" in parsed(lines.getvalue().rstrip("\n"))["error"]


@given(st.text(alphabet=st.characters(codec="utf-8")))
def test_any_text_comes_back_from_its_line(text: str) -> None:
    record = logging.makeLogRecord({"msg": "seen", "fields": {"text": text}})
    line = Logfmt().format(record)
    assert "\n" not in line
    assert parsed(line)["text"] == text


SIMULATED = """
metrics = ["hit_rate@10"]
[source]
type = "simulator"
events_per_second = 500
"""


class Listener:
    """The socket of a service manager; "@NAME" is one without a file."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + name[1:] if name[0] == "@" else name)

    def waiting(self) -> list[str]:
        """The messages received so far."""
        self._socket.settimeout(0)
        messages: list[str] = []
        while True:
            try:
                messages.append(self._socket.recv(4096).decode())
            except BlockingIOError:
                return messages

    def until(self, beginning: str) -> list[str]:
        """The messages up to one with this prefix."""
        self._socket.settimeout(PATIENCE)
        messages = [self._socket.recv(4096).decode()]
        while not messages[-1].startswith(beginning):
            messages.append(self._socket.recv(4096).decode())
        return messages

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def listener() -> Iterator[Listener]:
    opened = Listener(f"@streameval-{uuid.uuid4().hex}")
    yield opened
    opened.close()


def _environment(listener: Listener, **more: str) -> dict[str, str]:
    return {"NOTIFY_SOCKET": listener.name, "WATCHDOG_USEC": "90000000", **more}


def test_a_daemon_says_when_it_serves_lives_and_stops(tmp_path: Path) -> None:
    listener = Listener(str(tmp_path / "notify"))
    told = {"NOTIFY_SOCKET": listener.name, "WATCHDOG_USEC": "400000"}
    with running(SIMULATED, tmp_path, "--listen", "127.0.0.1:0", **told) as daemon:
        assert listener.until("READY=1") == ["READY=1"]
        before = listener.until("STATUS=Ready: reading")
        assert listener.until("WATCHDOG=1")
        assert "STOPPING=1" not in before
        assert daemon.stop(signal.SIGHUP) == 0
    listener.until("STOPPING=1")
    assert "READY=1" not in listener.waiting()
    listener.close()


def test_what_a_watchdog_ends_says_where_it_was(tmp_path: Path) -> None:
    with running(SIMULATED, tmp_path, "--listen", "127.0.0.1:0") as daemon:
        daemon.consumed(10)
        assert daemon.stop(signal.SIGABRT) == -signal.SIGABRT
    assert "Fatal Python error: Aborted\n" in daemon.log
    assert any("daemon/loop.py" in line and "in run" in line for line in daemon.log)


def test_nobody_is_told_where_nobody_asked(listener: Listener) -> None:
    manual_time = ManualTime()
    silent = Supervisor({"WATCHDOG_USEC": "1000000"}, manual_time.read)
    silent.ready()
    silent.alive()
    others = Supervisor(_environment(listener, WATCHDOG_PID="1"), manual_time.read)
    others.alive()
    assert listener.waiting() == []


@pytest.mark.parametrize(("limit", "most"), [(90_000_000, 1.0), (2_000_000, 0.5)])
def test_keep_alives_come_often_enough_and_not_with_every_beat(
    listener: Listener, limit: int, most: float
) -> None:
    manual_time, came = ManualTime(), list[float]()
    environment = _environment(listener, WATCHDOG_USEC=str(limit), WATCHDOG_PID=str(os.getpid()))
    supervisor = Supervisor(environment, manual_time.read)
    for _ in range(1_000):
        manual_time.advance(0.01)
        supervisor.alive()
        came += [manual_time.now] * len(listener.waiting())
    assert len(came) >= 9
    assert all(most <= later - earlier < most + 0.02 for earlier, later in pairwise(came))


class Stuck(Script):
    """A source that delivers some batches, and then blocks in `poll` for an hour."""

    def __init__(self, manual_time: ManualTime, listener: Listener) -> None:
        super().__init__(manual_time, [[HIT]] * 50)
        self._listener = listener
        self.before: list[str] = []
        self.meanwhile: list[str] = []

    def poll(self, seconds: float) -> Sequence[RecordBatch]:
        batches = super().poll(seconds)
        if not batches:
            self.before = self._listener.waiting()
            self.manual_time.advance(3_600)
            self.meanwhile = self._listener.waiting()
        return batches


def test_a_stuck_loop_sends_no_keep_alive(listener: Listener) -> None:
    manual_time = ManualTime()
    source = Stuck(manual_time, listener)
    parts = assemble(CONFIG, _environment(listener), manual_time.clock, source)
    loop_of(parts, manual_time).run(Countdown(51))
    assert source.before.count("WATCHDOG=1") >= 5
    assert source.meanwhile == []


def test_a_status_is_one_line_and_sent_when_it_changes(listener: Listener) -> None:
    supervisor = Supervisor(_environment(listener), ManualTime().read)
    for sentence in ("Starting: a\nb", "Starting: a\nb", "Ready: c"):
        supervisor.status(sentence)
    assert listener.waiting() == ["STATUS=Starting: a b", "STATUS=Ready: c"]


def test_a_socket_that_is_gone_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    supervisor = Supervisor({"NOTIFY_SOCKET": str(tmp_path / "none")}, ManualTime().read)
    with caplog.at_level(logging.WARNING):
        supervisor.ready()
        supervisor.stopping()
    assert [record.getMessage() for record in caplog.records] == ["supervisor_unreachable"]
