"""The steps at which a daemon can be killed."""

from __future__ import annotations

import functools
import importlib
import os
import signal
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple


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
_LETTERS = ("streameval.dead_letters.topic", "DeadLetterTopics")
_SCHEDULER = ("streameval.checkpoints.scheduler", "CheckpointScheduler")
_BLOB, _CHECKPOINT = "/blobs/", ".checkpoint"

POINTS: Mapping[str, Point] = MappingProxyType(
    {
        "in-first": Point(*_SCHEDULER, "first"),
        "before-letters": Point(*_LETTERS, "write"),
        "amid-letters": Point(*_LETTERS, "_await"),
        "after-letters": Point(*_LETTERS, "write", after=True),
        "after-blob": Point(*_DISK, "rename", after=True, about=_BLOB),
        "before-write": Point(*_DISK, "create", about=_CHECKPOINT),
        "before-fsync": Point(*_DISK, "sync", about=_CHECKPOINT),
        "before-rename": Point(*_DISK, "rename", about=_CHECKPOINT),
        "after-rename": Point(*_DISK, "rename", after=True, about=_CHECKPOINT),
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


def kill_at(point: Point) -> None:
    owner = getattr(importlib.import_module(point.module), point.owner)
    method = getattr(owner, point.method)
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
