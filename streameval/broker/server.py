from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
import uuid
from pathlib import Path
from types import TracebackType
from typing import Self

from streameval.broker.ports import free_ports
from streameval.broker.readiness import await_ready
from streameval.broker.runtime import classpath, java
from streameval.broker.settings import write_settings
from streameval.broker.watchdog import Watchdog
from streameval.errors import BrokerError

_FLAGS = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class Broker:
    """A Kafka broker of its own: free ports on 127.0.0.1, own directory, own process group.

    Needs the extra `broker` (a Java runtime and the jars; no installation, no root). As a context
    manager it is started on entry, and stopped and its data removed on exit. Should this process
    die without either, even by SIGKILL, a watchdog kills the broker and removes its data.

        with Broker() as broker:
            print(broker.bootstrap_servers)

    Args:
        seconds: longest wait for the broker to answer; a guard against hanging, not a pace.

    Raises:
        MissingExtraError: the extra is not installed.
        BrokerError: it does not start; carries the end of its log.
    """

    def __init__(self, *, seconds: float = 120.0) -> None:
        self._seconds = seconds
        self._port, self._controller = free_ports(2)
        self._directory: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: Watchdog | None = None

    @property
    def bootstrap_servers(self) -> str:
        """HOST:PORT for clients; the same over the whole life of this object."""
        return f"127.0.0.1:{self._port}"

    @property
    def pid(self) -> int | None:
        """Its process, which leads a process group of its own; None while it does not run."""
        running = self._process is not None and self._process.poll() is None
        return self._process.pid if self._process is not None and running else None

    def start(self) -> None:
        """Start it, on its earlier data where there is some, and wait until it answers."""
        if self.pid is not None:
            return
        directory = self._directory or self._prepare()
        self._process = _spawn(directory, "kafka.Kafka", str(directory / "server.properties"))
        if self._watchdog is not None:
            self._watchdog.watch(self._process.pid)
        try:
            await_ready(self.bootstrap_servers, self._process, self._seconds)
        except TimeoutError as error:
            self.kill()
            raise _failure(str(error), directory) from None

    def stop(self, *, seconds: float = 30.0) -> None:
        """Ask it to end (SIGTERM), and kill it where it does not within `seconds`; data stay."""
        self._end(signal.SIGTERM, seconds)

    def kill(self) -> None:
        """End it at once (SIGKILL), as a crash would; data stay."""
        self._end(signal.SIGKILL, 30.0)

    def restart(self) -> None:
        """Stop and start on the same data and the same port."""
        self.stop()
        self.start()

    def remove(self) -> None:
        """Stop it and remove its data; a later start begins with an empty broker."""
        self.stop()
        if self._watchdog is not None:
            self._watchdog.dismiss()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
        self._directory = self._watchdog = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.remove()

    def _prepare(self) -> Path:
        """A fresh directory with settings and formatted storage, under the watchdog's eyes."""
        directory = Path(tempfile.mkdtemp(prefix="streameval-broker-"))
        self._directory, self._watchdog = directory, Watchdog(directory)
        properties = write_settings(directory, self._port, self._controller)
        arguments = ("format", "-t", str(uuid.uuid4()), "-c", str(properties))
        storage = _spawn(directory, "kafka.tools.StorageTool", *arguments)
        if storage.wait() != 0:
            raise _failure("its storage cannot be formatted", directory)
        return directory

    def _end(self, number: int, seconds: float) -> None:
        if self._process is None:
            return
        self._process.send_signal(number)
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None
        if self._watchdog is not None:
            self._watchdog.watch(None)


def _spawn(directory: Path, main: str, *arguments: str) -> subprocess.Popen[bytes]:
    logging = f"-Dlog4j2.configurationFile={directory / 'log4j2.xml'}"
    command = (str(java()), *_FLAGS, logging, "-cp", classpath(), main, *arguments)
    with (directory / "broker.log").open("ab") as log:
        return subprocess.Popen(  # noqa: S603  our own command, no shell
            command, cwd=directory, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip


def _failure(problem: str, directory: Path) -> BrokerError:
    log = (directory / "broker.log").read_text(errors="replace").strip().splitlines()
    return BrokerError(problem, "its log ends with: " + " | ".join(log[-5:]))
