"""Reload: check the current configuration file, then restart the process with it.

The loop ends as on SIGTERM (checkpoint, commit, leave the group), and the process executes itself
with the same arguments. A configuration with which it could not start is rejected.
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
from streameval.checkpoints.settings import is_url
from streameval.checkpoints.storage import try_folder
from streameval.config import Config
from streameval.config.options import StateOptions
from streameval.config.pipeline import new_ingest, schemas_of, with_saved_depth
from streameval.daemon.assembly import group_of, letter_destination, store
from streameval.daemon.log import emit
from streameval.dead_letters.file import try_file
from streameval.engine.snapshot import ReloadHealth
from streameval.errors import ForeignStoreError, StreamevalError, UnlikeStateError
from streameval.events.records import Partition
from streameval.exporters.web import try_address
from streameval.sources.options import KafkaOptions


class Reload:
    """Requests to restart with the current configuration file.

    `check`: raises StreamevalError if a daemon could not start with it.

    Attributes:
        accepted: whether the process should restart.
        health: outcome of the last request; the start of the process counts as a success.
    """

    def __init__(self, check: Callable[[], None], wall: Callable[[], float]) -> None:
        self.accepted = False
        self.health = ReloadHealth(successful=True, at=wall())
        self._check = check
        self._wall = wall
        self._lock = threading.Lock()
        self._signalled = False
        self._config_valid = self._web_valid = True

    def request(self) -> str | None:
        """Check the configuration; returns the problem or None. Safe to call from any thread."""
        with self._lock:
            try:
                self._check()
            except StreamevalError as error:
                self._config_valid = False
                self._update_health()
                emit(logging.ERROR, "reload_refused", error=error)
                return str(error)
            emit(logging.INFO, "reloading")
            self.accepted = True
            return None

    def web_reloaded(self, error: StreamevalError | None) -> None:
        """Record that certificates and users were reloaded, or rejected with this error."""
        self._web_valid = error is None
        self._update_health()

    def _update_health(self) -> None:
        successful = self._config_valid and self._web_valid
        self.health = ReloadHealth(successful=successful, at=self._wall())

    def due(self) -> bool:
        """Whether the loop should end; a signal since the last call counts as a request."""
        if self._signalled:
            self._signalled = False
            self.request()
        return self.accepted

    @contextmanager
    def on_signal(self) -> Iterator[None]:
        """Handle SIGHUP as a request within the block."""
        before = signal.signal(signal.SIGHUP, self._on_signal)
        try:
            yield
        finally:
            # A second SIGHUP would kill the new process before it installs its handler.
            signal.signal(signal.SIGHUP, signal.SIG_IGN if self.accepted else before)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._signalled = True


def restart() -> NoReturn:
    """Execute this program again with the same arguments; the process id stays the same."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606  our own call


def check_start(new: Config, running: Config, environment: Mapping[str, str]) -> None:
    """Check that a daemon could start with a configuration in place of the running one.

    Raises:
        StreamevalError: the reason why it could not.
    """
    for address in set(new.web.addresses) - set(running.web.addresses):
        try_address(address)
    source = new.source.build(environment, shared=new.state is not None)
    schemas_of(new, environment)
    letter_destination(new)
    if new.dead_letters is not None and new.dead_letters.path is not None:
        try_file(new.dead_letters.path)
    if new.state is None:
        new_ingest(new)
        return
    group, before = group_of(new, source), running.state
    check_state(new, new.state, group)
    commits = isinstance(new.source, KafkaOptions) and group == group_of(running, source)
    moved = before is not None and before.path != new.state.path
    if commits and moved and not store(new.state).claimed():
        problem = f"it is empty, and group {group!r} has its state in another store"
        new.state.enforce("on_foreign_progress", new.state.path, problem)


def check_state(new: Config, options: StateOptions, group: str) -> None:
    """Load one checkpoint as a start would; those of its logs have the same settings.

    Raises:
        RefusedStateError: the state does not match the configuration.
        ForeignStoreError: the store belongs to another group.
        StoreError: the folder cannot be written.
    """
    if not is_url(options.path):
        try_folder(options.path)
    checkpoints = store(options)
    if checkpoints.claimed() and (claimed := checkpoints.owner().group) != group:
        raise ForeignStoreError(options.path, "group", group, claimed)
    # A former topic, or the state of a topic before it was recreated, may have other settings.
    last = checkpoints.last(new.source.logs)
    if last is None:
        new_ingest(new)
        return
    new = with_saved_depth(new, last.settings)
    ingest, here = new_ingest(new), new.settings()
    differing = other_settings(here, last.settings)
    decoding_only = options.on_other_settings == "accept" and same_shape(here, last.settings)
    if differing is not None and not decoding_only:
        options.enforce("on_other_settings", options.path, differing)
        return
    found = checkpoints.newest(last.place).saved
    if found is None:
        return
    place, offset = found.header.place, found.header.offset
    partition = Partition(place.topic, place.number)
    logs = {Partition.of(log): each for log, each in found.header.offsets.items()}
    parts = {name: found.read(name) for name in sorted(found.digests)}
    try:
        ingest.restore(partition, logs or {partition: offset}, parts)
    except UnlikeStateError as error:
        problem = f"its state cannot be loaded: {error}".rstrip(".")
        options.enforce("on_other_settings", str(place), problem)
