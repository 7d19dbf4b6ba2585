"""Runs the daemon, from a configuration to the end of the process."""

from __future__ import annotations

import gc
import logging
import math
import os
import resource
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib.metadata import version
from types import FrameType
from typing import Final
from urllib.parse import urlsplit

import msgspec

from streameval.checkpoints.scheduler import ProcessClock
from streameval.config import Config
from streameval.config.web_file import web_security
from streameval.daemon.assembly import assemble
from streameval.daemon.log import emit
from streameval.daemon.loop import Loop
from streameval.daemon.stored import StoredValues
from streameval.engine.snapshot import Snapshot, WebConfigHealth
from streameval.engine.windows.times import SECOND, duration_of
from streameval.events.errors import ConfigError
from streameval.events.extras import imports_of
from streameval.exporters.memory import MemoryUse, memory_uses
from streameval.exporters.page.state import state
from streameval.exporters.prometheus import PrometheusExporter
from streameval.exporters.web import Server, application
from streameval.sources.secrets import redact

_NO_STATE = (
    "no [state] in the configuration: metrics reset on restart, and nothing is committed to Kafka"
)


_GC_THRESHOLD = 50_000
"""Allocations before a young collection; reference counts free most objects much earlier."""


class Daemon:
    """Counts the records of a source and serves the values. The constructor starts to listen.

    `environment`: values of ${NAME} in the configuration, usually `os.environ`. `observe`: receives
    each published snapshot, on the thread that takes snapshots.

    Raises:
        AddressInUseError: the address is in use.
        ConfigError: the configuration contradicts itself or the environment.
    """

    def __init__(
        self,
        config: Config,
        environment: Mapping[str, str],
        *,
        observe: Callable[[Snapshot], None] | None = None,
    ) -> None:
        self._config, clock = config, ProcessClock()
        self._observe = observe
        self._current: Snapshot | None = None
        self._memory = MemoryWarning()
        web = config.web
        self._security = web_security(web)
        self._security.observe = self._web_config_read
        self._security.warn = _warn_about_certificate
        self._security.overload = PasswordFlood(clock.monotonic).observe
        self._wall = clock.wall
        self._web_config = WebConfigHealth(successful=True, at=clock.wall())
        parts = assemble(config, environment, clock)
        self._supervisor = parts.supervisor
        self._loop = Loop(parts, self._publish, clock, lambda: self._web_config)
        path = None if config.state is None else config.state.path
        self._stored = StoredValues(path, self._counts)
        exporter = PrometheusExporter(
            version=version("streameval"),
            kafka=config.source.has_topics,
            wall=clock.wall,
            first_exposure=duration_of(web.first_exposure) / SECOND,
        )
        app = application(
            self.current,
            # Never values that this process did not count: a graph cannot mark them.
            lambda _, **form: exporter.exposition(self._current, **form),
            healthy=lambda: self._loop.healthy,
            prefix=web.prefix,
            hosts=web.hosts,
            security=self._security,
        )
        self._server = Server(app, web.addresses, self._security)
        self._otlp = self._otlp_exporter(exporter, environment)

    @property
    def address(self) -> str:
        """First URL that is served: "http://HOST:PORT" and the prefix of all paths."""
        return self._addresses[0]

    @property
    def _addresses(self) -> list[str]:
        return [f"{address}{self._config.web.prefix}" for address in self._server.addresses]

    def current(self) -> Snapshot | None:
        """The latest snapshot, or None before the first. Safe to call from any thread.

        While the source has not assigned partitions, its values are those of the checkpoints.
        """
        return self._stored.instead_of(self._current)

    def _counts(self) -> bool:
        """Whether the source has assigned partitions, or this process stands by."""
        health = None if self._current is None else self._current.health
        return health is not None and (health.ready or bool(health.partitions))

    def run(self, until: Callable[[], bool]) -> None:
        """Count until told to stop, then shut down gracefully.

        `until`: whether to stop; called between batches, several times a second.

        Raises:
            SourceError: the source cannot be read, and waiting will not help.
            UnsavedStateError: the last checkpoint could not be written.
        """
        _allow_many_files()
        with self._server, _rare_garbage_collection(), self._otlp:
            self._log_start()
            self._supervisor.ready()
            self._stored.start()
            try:
                self._loop.run(lambda: self._should_end(until))
            finally:
                self._stored.stop()

    def _otlp_exporter(
        self, exporter: PrometheusExporter, environment: Mapping[str, str]
    ) -> AbstractContextManager[object]:
        """What sends the families of /metrics by OTLP, if the environment asks for it."""
        if "otlp" not in environment.get("OTEL_METRICS_EXPORTER", "").split(","):
            return nullcontext()
        with imports_of("OTEL_METRICS_EXPORTER=otlp", "otlp"):
            from streameval.exporters.otlp import OtlpExporter  # noqa: PLC0415  an extra

        instance = f"{socket.gethostname()}:{urlsplit(self.address).port}"
        resource = {
            "service.name": "streameval",
            "service.version": version("streameval"),
            "service.instance.id": instance,
        }
        sender = OtlpExporter(
            lambda: exporter.families(self._current), resource, environment, _log_otlp
        )
        exporter.register(sender)
        return sender

    def _should_end(self, until: Callable[[], bool]) -> bool:
        if until():
            self._supervisor.stopping()
            return True
        return False

    def _web_config_read(self, error: ConfigError | None) -> None:
        self._web_config = WebConfigHealth(successful=error is None, at=self._wall())
        if error is None:
            emit(logging.INFO, "web_config_reloaded")
        else:
            emit(logging.ERROR, "web_config_refused", error=error)

    def _publish(self, snapshot: Snapshot) -> None:
        self._current = snapshot
        self._memory.observe()
        self._supervisor.status(state(snapshot, healthy=self._loop.healthy).sentence)
        if self._observe is not None:
            self._observe(snapshot)

    def _log_start(self) -> None:
        emit(
            logging.INFO,
            "started",
            version=version("streameval"),
            address=self.address if len(self._addresses) == 1 else self._addresses,
            note=_NO_STATE if self._config.state is None else None,
        )
        configuration = redact(msgspec.to_builtins(self._config))
        emit(logging.DEBUG, "configuration", configuration=configuration)
        danger = self._server.danger
        if danger is not None:
            emit(logging.WARNING, "exposed", danger=danger)
        if self._security.warning is not None:
            _warn_about_certificate(self._security.warning)


_NEAR, _FAR = 0.8, 0.7
"""Shares of the memory limit at which a warning is logged, and below which it may be repeated."""


class MemoryWarning:
    """Logs that the memory in use is near a limit, once until it has fallen again."""

    def __init__(self, uses: Callable[[], Sequence[MemoryUse]] = memory_uses) -> None:
        self._uses = uses
        self._given = False

    def observe(self) -> None:
        """Compare the memory in use with each limit."""
        used, limit = max(self._uses(), key=lambda use: use.used / use.limit, default=(0, 1))
        if used >= _NEAR * limit and not self._given:
            self._given = True
            emit(logging.WARNING, "memory_near_limit", used_bytes=used, limit_bytes=limit)
        elif used < _FAR * limit:
            self._given = False


_FLOOD_SECONDS = 60.0


class PasswordFlood:
    """Logs that more passwords arrive than can be checked, at most once a minute."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._next = -math.inf

    def observe(self, address: str) -> None:
        """A client at this address was turned away."""
        if self._clock() >= self._next:
            self._next = self._clock() + _FLOOD_SECONDS
            emit(logging.WARNING, "password_flood", address=address)


def _log_otlp(problem: str | None) -> None:
    if problem is None:
        emit(logging.INFO, "otlp_recovered")
    else:
        emit(logging.WARNING, "otlp_failing", problem=problem)


def _warn_about_certificate(problem: str) -> None:
    emit(logging.WARNING, "web_certificate", problem=problem)


_MANY_FILES: Final = 65_536


def _allow_many_files() -> None:
    """Raise the limit of open files as far as allowed: a connection is one, the default 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = _MANY_FILES if hard == resource.RLIM_INFINITY else min(hard, _MANY_FILES)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))


@contextmanager
def _rare_garbage_collection() -> Iterator[None]:
    """Make cyclic garbage collection rare; otherwise it takes a tenth of the processor time.

    Existing objects (modules) are frozen. Reference cycles are rare and are freed later.
    """
    thresholds = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_ONE_SIGNAL = 0.5
"""Seconds within which a repeated signal counts as the same: timeout(1) sends it twice."""


class StopSignal:
    """Tells when to stop: after SIGTERM, SIGINT or SIGHUP, or after a given time."""

    def __init__(
        self, seconds: float | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._deadline = None if seconds is None else clock() + seconds
        self._signalled_at = -math.inf
        self.signal: str | None = None

    def __call__(self) -> bool:
        """Whether it is time to stop."""
        expired = self._deadline is not None and self._clock() >= self._deadline
        return expired or self.signal is not None

    @contextmanager
    def on_signals(self) -> Iterator[StopSignal]:
        """Handle signals within the block: the first one stops, a second one kills the process."""
        # Under nohup, SIGHUP is ignored and stays so; a shell ignores SIGINT for its jobs.
        under_nohup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        heeded = _SIGNALS[:2] if under_nohup else _SIGNALS
        before = {number: signal.signal(number, self._on_signal) for number in heeded}
        try:
            yield self
        finally:
            for signal_number, handler in before.items():
                signal.signal(signal_number, handler)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if self.signal is None:
            self.signal, self._signalled_at = signal.Signals(number).name, self._clock()
        elif self._clock() - self._signalled_at >= _ONE_SIGNAL:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
            # Still here: the first process of a container, for which Linux ignores it.
            os._exit(128 + number)
