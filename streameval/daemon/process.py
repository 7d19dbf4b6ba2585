"""The whole daemon: a source, the loop that counts it, and a server of what the loop publishes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from importlib.metadata import version
from typing import Any

import msgspec

from streameval.config import Config
from streameval.config.web_file import protection
from streameval.daemon.assembly import assembled
from streameval.daemon.clock import Clock
from streameval.daemon.log import emit
from streameval.daemon.loop import Loop
from streameval.daemon.reloading import Reloading
from streameval.exporters.prometheus import PrometheusExporter
from streameval.exporters.web import Limits, Server, Shield, application
from streameval.pipeline.snapshot import Snapshot
from streameval.sources.kafka_secrets import redacted
from streameval.sources.options import KafkaOptions

SINCE_START = (
    "values are since start: there is no [state] in the configuration, so nothing is kept over a "
    "restart, and nothing is committed to Kafka"
)

_PATIENCE = 120.0
"""Seconds; saving and restoring a large state takes a few."""


class Daemon:
    """Counts what a source delivers, and serves it. It listens from the moment it is made.

    Args:
        config: what to read, count and serve.
        environment: what ${NAME} in the configuration stands for, usually `os.environ`.
        clock: where time comes from.
        reread: reads the configuration anew; None where it cannot change.
        lifecycle: whether POST /-/reload may ask for that.
        observe: handed each snapshot after it is published, on the ingest thread.

    Raises:
        AddressInUseError: the address is taken.
        ConfigError: the configuration does not say something that can be done.
    """

    def __init__(
        self,
        config: Config,
        environment: Mapping[str, str],
        *,
        clock: Clock = Clock(),  # noqa: B008  immutable
        reread: Callable[[], Config] | None = None,
        lifecycle: bool = False,
        observe: Callable[[Snapshot], None] | None = None,
    ) -> None:
        self._config = config
        self._observe = observe
        self._current: Snapshot | None = None
        web = config.web
        self._shield = Shield(protection(web.config_file))
        self._reloading = None if reread is None else Reloading(reread, self._shield)
        parts = assembled(config, environment, clock)
        self._loop = Loop(parts, self._publish, clock, self._reloading)
        self._exporter = PrometheusExporter(
            version=version("streameval"), kafka=isinstance(config.source, KafkaOptions)
        )
        app = application(
            self.current,
            self._exporter,
            turning=lambda: self._loop.turning,
            reload=self._reload if lifecycle and self._reloading else None,
            prefix=web.prefix,
            shield=self._shield,
            open_health=web.health_without_auth,
        )
        limits = Limits(connections=web.max_connections)
        self._server = Server(app, web.addresses, self._shield, limits)

    @property
    def address(self) -> str:
        """Where it serves, "http://HOST:PORT" and the prefix of all paths; the first of several."""
        return self._addresses[0]

    @property
    def _addresses(self) -> list[str]:
        return [f"{each}{self._config.web.prefix}" for each in self._server.addresses]

    def current(self) -> Snapshot | None:
        """The latest snapshot; None before the first. May be asked from any thread."""
        return self._current

    def run(self, until: Callable[[], bool]) -> None:
        """Count until told to stop, then end in order.

        Args:
            until: asked between batches, several times a second.

        Raises:
            SourceError: the source cannot be read, and waiting will not help.
        """
        with self._server, self._on_signal():
            self._say_what_starts()
            self._loop.run(until)

    def _reload(self) -> str | None:
        """Ask the loop, and wait for its answer; called on a thread of the server."""
        if self._reloading is None:
            return "the configuration cannot change"
        try:
            return self._reloading.wishes.make().wait(_PATIENCE)
        except TimeoutError:
            return f"no answer within {_PATIENCE:g} s; see the log"

    def _on_signal(self) -> AbstractContextManager[None]:
        return nullcontext() if self._reloading is None else self._reloading.wishes.on_signal()

    def _publish(self, snapshot: Snapshot) -> None:
        self._exporter.observe(snapshot)
        self._current = snapshot
        if self._observe is not None:
            self._observe(snapshot)

    def _say_what_starts(self) -> None:
        emit(
            logging.INFO,
            "started",
            version=version("streameval"),
            address=self.address if len(self._addresses) == 1 else self._addresses,
            configuration=_shown(self._config),
            note=SINCE_START if self._config.state is None else None,
        )
        danger = self._server.danger
        if danger is not None:
            emit(logging.WARNING, "exposed", danger=danger)


def _shown(config: Config) -> dict[str, Any]:
    return redacted(msgspec.to_builtins(config))
