"""Runs the daemon, from a configuration to the end of the process."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

from streameval.checkpoints.scheduler import ProcessClock
from streameval.config import Config
from streameval.daemon.assembly import assemble
from streameval.daemon.loop import Loop
from streameval.daemon.site import Site
from streameval.daemon.stored_values import StoredValues
from streameval.engine.snapshot import Snapshot

_NO_STATE = (
    "no [state] in the configuration: metrics reset on restart, and nothing is committed to Kafka"
)


class Daemon:
    """Counts the records of a source and serves the values. The constructor starts to listen.

    `environment`: values of ${NAME} in the configuration, usually `os.environ`. `observe`: receives
    each published snapshot, on the thread that takes snapshots.

    Raises:
        UsageError: the address is in use.
        ConfigError: the configuration contradicts itself or the environment.
    """

    def __init__(
        self,
        config: Config,
        environment: Mapping[str, str],
        *,
        observe: Callable[[Snapshot], None] | None = None,
    ) -> None:
        config.hide_previews()
        clock = ProcessClock()
        self._has_state = config.state is not None
        self._observe = observe
        parts = assemble(config, environment, clock)
        self._supervisor = parts.supervisor
        self._loop = Loop(parts, self._publish, clock, lambda: self._site.web_config)
        self._stored = StoredValues(parts.config, self._counts)
        self._site = Site(
            config,
            environment,
            clock,
            parts.supervisor,
            healthy=lambda: self._loop.healthy,
            visible=self._stored.instead_of,
        )

    @property
    def address(self) -> str:
        """First URL that is served: "http://HOST:PORT" and the prefix of all paths."""
        return self._site.addresses[0]

    def current(self) -> Snapshot | None:
        """The latest snapshot, or None before the first. Safe to call from any thread.

        While the source has not assigned partitions, its values are those of the checkpoints.
        """
        return self._stored.instead_of(self._site.latest)

    def _counts(self) -> bool:
        """True if the source has assigned partitions, or this process stands by."""
        latest = self._site.latest
        return latest is not None and (latest.health.ready or bool(latest.health.partitions))

    def run(self, until: Callable[[], bool]) -> None:
        """Count until a signal to stop, then shut down gracefully.

        `until`: whether to stop; called between batches, several times a second.

        Raises:
            SourceError: the source cannot be read, and waiting will not help.
            UnsavedStateError: the last checkpoint could not be written.
        """

        def ends() -> bool:
            if not until():
                return False
            self._supervisor.stopping()
            return True

        with self._site.open(None if self._has_state else _NO_STATE):
            self._stored.start()
            try:
                self._loop.run(ends)
            finally:
                self._stored.stop()

    def _publish(self, snapshot: Snapshot) -> None:
        self._site.publish(snapshot)
        if self._observe is not None:
            self._observe(snapshot)


_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_SIGNAL_SECONDS = 0.5
"""Seconds within which a repeated signal counts as the same: timeout(1) sends it twice."""


class StopSignal:
    """Tells when to stop: after SIGTERM, SIGINT or SIGHUP, or after some time."""

    def __init__(
        self, seconds: float | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._deadline = None if seconds is None else clock() + seconds
        self._signalled_at = -math.inf
        self.signal: str | None = None

    def __call__(self) -> bool:
        """True if it is time to stop."""
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
        elif self._clock() - self._signalled_at >= _SIGNAL_SECONDS:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
            # Still here: the first process of a container, for which Linux ignores it.
            os._exit(128 + number)
