"""HTTP site of a process: the page, the API and the metrics of its snapshots."""

from __future__ import annotations

import gc
import logging
import math
import resource
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib.metadata import version
from typing import Final
from urllib.parse import urlsplit

import msgspec

from streameval.checkpoints.scheduler import ProcessClock
from streameval.config import Config
from streameval.config.web_file import web_security
from streameval.daemon.log import emit
from streameval.daemon.systemd import Supervisor
from streameval.engine.snapshot import Snapshot, WebConfigHealth
from streameval.engine.windows.times import SECOND, duration_of
from streameval.events.errors import ConfigError, UsageError
from streameval.events.extras import imports_of
from streameval.events.secrets import redact
from streameval.exporters.memory import MemoryUse, memory_uses
from streameval.exporters.page.state import daemon_state
from streameval.exporters.prometheus import PrometheusExporter
from streameval.exporters.web import Server, application

_GC_THRESHOLD = 50_000
"""Allocations before a young collection; reference counts free most objects much earlier."""


class Site:
    """Serves the latest snapshot. The constructor starts to listen.

    Args:
        config: of the process.
        environment: of the process; variables of OpenTelemetry are read.
        clock: of the process.
        supervisor: notified of the start and of each snapshot.
        healthy: whether the loop makes progress; called on several threads.
        visible: the snapshot of page and API, given the latest one; /metrics has the latest.
        name: of the service, for OpenTelemetry.
        counters: whether /metrics has counters.

    Attributes:
        latest: the snapshot published last, or None.
        web_config: the last reading of certificates and users.

    Raises:
        UsageError: the address is in use.
        ConfigError: the configuration of the web server is not valid.
        UsageError: a variable of OpenTelemetry has a value that cannot be followed.
    """

    def __init__(
        self,
        config: Config,
        environment: Mapping[str, str],
        clock: ProcessClock,
        supervisor: Supervisor,
        *,
        healthy: Callable[[], bool],
        visible: Callable[[Snapshot | None], Snapshot | None] = lambda latest: latest,
        name: str = "streameval",
        counters: bool = True,
    ) -> None:
        self._config, self._supervisor, self._healthy = config, supervisor, healthy
        self._wall = clock.wall
        self.latest: Snapshot | None = None
        self._memory = MemoryWarning()
        web = config.web
        self._security = web_security(web)
        self._security.observe = self._web_config_read
        self._security.overload = PasswordFlood(clock.monotonic).observe
        self.web_config = WebConfigHealth(successful=True, at=clock.wall())
        exporter = PrometheusExporter(
            version=version("streameval"),
            kafka=config.source.has_topics,
            counters=counters,
            wall=clock.wall,
            first_exposure=duration_of(web.first_exposure) / SECOND,
        )
        app = application(
            lambda: visible(self.latest),
            # Never values that this process did not count: a graph cannot mark them.
            lambda _, **form: exporter.exposition(self.latest, **form),
            healthy=healthy,
            prefix=web.prefix,
            hosts=web.hosts,
            security=self._security,
        )
        self._server = Server(app, web.addresses, self._security)
        self._otlp = self._otlp_exporter(exporter, environment, name)

    @property
    def addresses(self) -> list[str]:
        """The URLs that are served: "http://HOST:PORT" and the prefix of all paths."""
        return [f"{address}{self._config.web.prefix}" for address in self._server.addresses]

    def publish(self, snapshot: Snapshot) -> None:
        """Serve this snapshot from now on."""
        self.latest = snapshot
        self._memory.observe()
        self._supervisor.status(daemon_state(snapshot, healthy=self._healthy()).sentence)

    @contextmanager
    def open(self, note: str | None) -> Iterator[None]:
        """Serve within the block; `note`: for the log of the start."""
        _allow_many_files()
        with self._server, _rare_garbage_collection(), self._otlp:
            self._log_start(note)
            self._supervisor.ready()
            yield

    def _otlp_exporter(
        self, exporter: PrometheusExporter, environment: Mapping[str, str], name: str
    ) -> AbstractContextManager[object]:
        """The sender of the families of /metrics by OTLP, if the environment asks for it."""
        exporters = [x.strip() for x in environment.get("OTEL_METRICS_EXPORTER", "").split(",")]
        for exporter_name in exporters:
            if exporter_name not in {"otlp", "prometheus", "none", ""}:
                problem = f"found {exporter_name!r}; give otlp, prometheus or none."
                raise UsageError(f"OTEL_METRICS_EXPORTER: {problem}")
        if "otlp" not in exporters:
            return nullcontext()
        with imports_of("OTEL_METRICS_EXPORTER=otlp", "otlp"):
            from streameval.exporters.otlp import OtlpExporter  # noqa: PLC0415  an extra

        resource = {
            "service.name": name,
            "service.version": version("streameval"),
            "service.instance.id": f"{socket.gethostname()}:{urlsplit(self.addresses[0]).port}",
        }
        sender = OtlpExporter(
            lambda: exporter.families(self.latest), resource, environment, _log_otlp
        )
        exporter.register(sender)
        return sender

    def _web_config_read(self, error: ConfigError | None) -> None:
        self.web_config = WebConfigHealth(successful=error is None, at=self._wall())
        if error is None:
            emit(logging.INFO, "web_config_reloaded")
        else:
            emit(logging.ERROR, "web_config_refused", error=error)

    def _log_start(self, note: str | None) -> None:
        addresses = self.addresses
        emit(
            logging.INFO,
            "started",
            version=version("streameval"),
            address=addresses[0] if len(addresses) == 1 else addresses,
            note=note,
        )
        configuration = redact(msgspec.to_builtins(self._config))
        emit(logging.DEBUG, "configuration", configuration=configuration)
        danger = self._server.danger
        if danger is not None:
            emit(logging.WARNING, "exposed", danger=danger)


_NEAR, _FAR = 0.8, 0.7
"""Shares of the memory limit at which a warning is logged, and below which it may be repeated."""


class MemoryWarning:
    """Logs that the memory in use is near a limit, once until it has fallen again."""

    def __init__(self, uses: Callable[[], Sequence[MemoryUse]] = memory_uses) -> None:
        self._uses = uses
        self._logged = False

    def observe(self) -> None:
        """Compare the memory in use with each limit."""
        used, limit = max(self._uses(), key=lambda use: use.used / use.limit, default=(0, 1))
        if used >= _NEAR * limit and not self._logged:
            self._logged = True
            emit(logging.WARNING, "memory_near_limit", used_bytes=used, limit_bytes=limit)
        elif used < _FAR * limit:
            self._logged = False


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
