"""`python -m tests.chaos.faulty_daemon FAULT[+FAULT...] CONFIG` runs a daemon with faults.

A fault is `disk-full`, a point at which the process is killed, or a mistake in the protocol.
"""

from __future__ import annotations

import errno
import functools
import importlib
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import streameval.daemon.process
import streameval.daemon.site
from streameval.checkpoints.scheduler import CheckpointScheduler
from streameval.checkpoints.storage import Disk
from streameval.cli import run_command
from streameval.exporters.prometheus import PrometheusExporter


class Point(NamedTuple):
    """A call of a method of a class at which the process is killed.

    Attributes:
        after: whether the method runs first.
        reach: number of the call, from 1.
        about: count only calls with this text in their first argument.
    """

    module: str
    owner: str
    method: str
    after: bool = False
    reach: int = 2
    about: str = ""


_DISK = ("streameval.checkpoints.storage", "Disk")
_GROUP = ("streameval.sources.kafka.source", "KafkaSource")
_CHECKPOINTER = ("streameval.checkpoints.checkpointer", "Checkpointer")
_LETTERS = ("streameval.checkpoints.dead_letters.topic", "DeadLetterTopics")
_SCHEDULER = ("streameval.checkpoints.scheduler", "CheckpointScheduler")
_ROUND = ".round"

POINTS: Mapping[str, Point] = MappingProxyType(
    {
        "in-first": Point(*_SCHEDULER, "first"),
        "before-letters": Point(*_LETTERS, "write"),
        "amid-letters": Point(*_LETTERS, "_is_accepted"),
        "after-letters": Point(*_LETTERS, "write", after=True),
        "before-write": Point(*_DISK, "create", about=_ROUND),
        "before-fsync": Point(*_DISK, "sync", about=_ROUND),
        "before-rename": Point(*_DISK, "rename_new", about=_ROUND),
        "after-rename": Point(*_DISK, "rename_new", after=True, about=_ROUND),
        "before-commit": Point(*_GROUP, "commit"),
        "after-commit": Point(*_GROUP, "commit", after=True),
        "in-restore": Point("streameval.engine.ingest", "Ingest", "restore"),
        "in-revoke": Point(*_CHECKPOINTER, "revoked", reach=1),
        "after-revoke": Point(*_CHECKPOINTER, "revoked", after=True, reach=1),
        "in-finish": Point(*_CHECKPOINTER, "finish", reach=1),
    }
)
"""Every step of a start, a checkpoint, a restore, a revocation and a shutdown."""

REVOKING = ("in-revoke", "after-revoke")
"""Points that need a second member."""


def method_of(point: Point) -> tuple[Any, Any]:
    """The class of a point, and its method."""
    owner = getattr(importlib.import_module(point.module), point.owner)
    return owner, getattr(owner, point.method)


def kill_at(point: Point) -> None:
    owner, method = method_of(point)
    calls = 0

    @functools.wraps(method)
    def reached(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += not point.about or point.about in str(arguments[1])
        if calls < point.reach:
            return method(*arguments, **named)
        if point.after:
            method(*arguments, **named)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("unreachable")

    setattr(owner, point.method, reached)


def disk_full(folder: Path) -> None:
    """Refuse to write files while the folder has a file named `disk-full`."""
    disk: Any = Disk
    create = disk.create

    def refuse(*arguments: Any) -> None:
        if (folder / "disk-full").exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(arguments[1]))
        create(*arguments)

    disk.create = refuse


def save_last_scrape(folder: Path) -> None:
    """Write a last scrape to a file at the exit, because no scraper is quick enough."""
    process, site = cast("Any", streameval.daemon.process), cast("Any", streameval.daemon.site)
    make, run = site.PrometheusExporter, process.Daemon.run
    exporters: list[PrometheusExporter] = []

    def keep(**named: Any) -> PrometheusExporter:
        exporters.append(make(**named))
        return exporters[-1]

    def run_and_save(self: Any, *arguments: Any, **named: Any) -> None:
        try:
            run(self, *arguments, **named)
        finally:
            (exporter,) = exporters
            # A new counter shows 0 in its first scrape.
            exporter.exposition(self.current())
            (folder / f"last-scrape-{os.getpid()}").write_bytes(exporter.exposition(self.current()))

    site.PrometheusExporter, process.Daemon.run = keep, run_and_save


def _inject(faults: str, folder: Path) -> None:
    save_last_scrape(folder)
    for name in filter(None, faults.split("+")):
        if name in POINTS:
            kill_at(POINTS[name])
        elif name == "disk-full":
            disk_full(folder)
        else:
            _break_protocol(name)


def _break_protocol(name: str) -> None:
    """Do before each save what must come after it."""
    act, scheduler = _TOO_EARLY[name], cast("Any", CheckpointScheduler)
    begin = scheduler._begin

    def act_first(self: Any, chosen: Any, *more: Any) -> Any:
        for checkpoints in chosen:
            act(self._committer, checkpoints)
        return begin(self, chosen, *more)

    scheduler._begin = act_first


def _commit(committer: Any, checkpoints: Any) -> None:
    committer._commit({checkpoints.partition: checkpoints.position}, wait=True)


def _publish(committer: Any, checkpoints: Any) -> None:
    if checkpoints.is_exporting:
        evidence, partition = committer._evidence, checkpoints.partition
        counted_key, exported_key = evidence.partition_key(partition), evidence.exported_key()
        committer._counters.publish(partition, checkpoints.totals_now(), counted_key, exported_key)


_TOO_EARLY: Mapping[str, Callable[[Any, Any], None]] = MappingProxyType(
    {"commit before save": _commit, "publish before save": _publish}
)


if __name__ == "__main__":
    _inject(sys.argv[1], Path(sys.argv[2]).parent)
    sys.argv = ["streameval", "run", sys.argv[2]]
    run_command()
