"""`python -m tests.chaos.victim POINT CONFIG`: a daemon that is killed when it gets to a point."""

from __future__ import annotations

import errno
import functools
import importlib
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from streameval.cli import main


class Point(NamedTuple):
    """Where a process dies.

    Attributes:
        module: that holds the class.
        owner: the class.
        method: that is called.
        after: whether the method is let through first.
        reach: at which call, counted from 1.
    """

    module: str
    owner: str
    method: str
    after: bool = False
    reach: int = 2


_KEEPER = "streameval.durability.keeper"
FULL = "disk-full"
"""Instead of a point: the disk is full while a file of this name lies beside the configuration."""

_DISK = ("streameval.stores.disk", "RealDisk")
_GROUP = ("streameval.sources.kafka_group", "KafkaGroupSource")

POINTS: Mapping[str, Point] = MappingProxyType(
    {
        "before-write": Point(*_DISK, "create", reach=4),
        "before-fsync": Point(*_DISK, "create", after=True, reach=4),
        "before-rename": Point(*_DISK, "rename", reach=3),
        "after-rename": Point(*_DISK, "rename", after=True, reach=3),
        "before-commit": Point(*_GROUP, "commit"),
        "after-commit": Point(*_GROUP, "commit", after=True),
        "in-restore": Point("streameval.pipeline.ingest", "Ingest", "restore"),
        "in-revoke": Point(_KEEPER, "Keeper", "revoked", reach=1),
        "after-revoke": Point(_KEEPER, "Keeper", "revoked", after=True, reach=1),
        "in-flush": Point("streameval.letters.topic", "TopicLetters", "flush"),
        "after-flush": Point("streameval.letters.topic", "TopicLetters", "flush", after=True),
    }
)
"""Every step of a checkpoint, of taking over, and of giving away."""


def deadly(point: Point) -> None:
    """Put death where the point is."""
    owner = getattr(importlib.import_module(point.module), point.owner)
    method = getattr(owner, point.method)
    calls = 0

    @functools.wraps(method)
    def reached(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls < point.reach:
            return method(*arguments, **named)
        found = method(*arguments, **named) if point.after else None
        os.kill(os.getpid(), signal.SIGKILL)
        return found

    setattr(owner, point.method, reached)


def breakable(flag: Path) -> None:
    """Let no file be written as long as `flag` exists: the disk is full."""
    disk: Any = getattr(importlib.import_module(_DISK[0]), _DISK[1])
    create = disk.create

    def refused(*arguments: Any) -> None:
        if flag.exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(arguments[1]))
        create(*arguments)

    disk.create = refused


if __name__ == "__main__":
    if sys.argv[1] == FULL:
        breakable(Path(sys.argv[2]).parent / FULL)
    else:
        deadly(POINTS[sys.argv[1]])
    sys.argv = ["streameval", "run", sys.argv[2]]
    main()
