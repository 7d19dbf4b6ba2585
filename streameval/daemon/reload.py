"""Reload: check the configuration as it is written now, then restart the process under it.

The loop ends as on SIGTERM (checkpoint, commit, leave the group), and the process executes itself
with the same arguments. A configuration that could not start is refused, and nothing changes.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from streameval.checkpoints.restore import other_settings, same_shape
from streameval.config import Config
from streameval.config.options import StateOptions
from streameval.config.pipeline import new_ingest, schemas_of, with_saved_depth
from streameval.daemon.assembly import letter_place, store
from streameval.daemon.log import emit
from streameval.engine.snapshot import ReloadHealth
from streameval.errors import StreamevalError, UnlikeStateError
from streameval.events.records import Partition
from streameval.exporters.web import try_address


class Reload:
    """Requests to restart under the configuration file as it is now.

    `check`: raises StreamevalError where a daemon could not start under it.

    Attributes:
        accepted: whether the process should end, and start again.
        health: how the last request ended; the start counts as one that succeeded.
    """

    def __init__(self, check: Callable[[], None], wall: Callable[[], float]) -> None:
        self.accepted = False
        self.health = ReloadHealth(successful=True, at=wall())
        self._check = check
        self._wall = wall
        self._lock = threading.Lock()
        self._signalled = False
        self._in_force = self._web_in_force = True

    def request(self) -> str | None:
        """Check the configuration; returns why it is refused, or None. Any thread may call it."""
        with self._lock:
            try:
                self._check()
            except StreamevalError as error:
                self._in_force = False
                self._judge()
                emit(logging.ERROR, "reload_refused", error=error)
                return str(error)
            emit(logging.INFO, "reloading")
            self.accepted = True
            return None

    def note(self, error: StreamevalError | None) -> None:
        """Certificates and users were read again, or were refused by this error."""
        self._web_in_force = error is None
        self._judge()

    def _judge(self) -> None:
        successful = self._in_force and self._web_in_force
        self.health = ReloadHealth(successful=successful, at=self._wall())

    def due(self) -> bool:
        """Whether the loop should end; a signal that came since the last call is a request."""
        if self._signalled:
            self._signalled = False
            self.request()
        return self.accepted

    @contextmanager
    def on_signal(self) -> Iterator[None]:
        """Within, SIGHUP is a request."""
        before = signal.signal(signal.SIGHUP, self._ask)
        try:
            yield
        finally:
            # Ignored until the new process listens: otherwise a second SIGHUP would end it.
            signal.signal(signal.SIGHUP, signal.SIG_IGN if self.accepted else before)

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        self._signalled = True


def restart() -> NoReturn:
    """Execute this program again, with the same arguments; the process keeps its id."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606  our own call


def check_start(new: Config, running: Config, environment: Mapping[str, str]) -> None:
    """Whether a daemon could start under a configuration in place of the one that runs.

    Raises:
        StreamevalError: it could not, and why.
    """
    for address in set(new.web.addresses) - set(running.web.addresses):
        try_address(address)
    new.source.build(environment, shared=new.state is not None)
    schemas_of(new, environment)
    letter_place(new)
    if new.state is None:
        new_ingest(new)
    else:
        _check_state(new, new.state)


def _check_state(new: Config, options: StateOptions) -> None:
    """Load a checkpoint as a start would: one is enough, for all have the same settings.

    Raises:
        RefusedStateError: the state does not fit the configuration.
    """
    checkpoints = store(options)
    saved = checkpoints.settings()
    new = with_saved_depth(new, saved)
    ingest = new_ingest(new)
    differing = other_settings(new.settings(), saved) if saved else None
    decoding_only = options.on_other_settings == "accept" and same_shape(new.settings(), saved)
    if differing is not None and not decoding_only:
        options.enforce("on_other_settings", options.path, differing)
        return
    for place in checkpoints.places()[:1]:
        found = checkpoints.newest(place).saved
        if found is None:
            continue
        partition = Partition(place.topic, place.number)
        logs = {Partition.of(log): offset for log, offset in found.header.offsets.items()}
        parts = {name: found.read(name) for name in sorted(found.digests)}
        try:
            ingest.restore(partition, logs or {partition: found.header.offset}, parts)
        except UnlikeStateError as error:
            problem = f"its state cannot be loaded: {error}".rstrip(".")
            options.enforce("on_other_settings", str(place), problem)
