"""The name in its consumer group of a process that shares its state with no other."""

from __future__ import annotations

import fcntl
import os
import socket
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Final

from streameval.checkpoints.settings import is_url
from streameval.checkpoints.storage import Disk
from streameval.config.tables import StateOptions

FILE: Final = ".member"
"""File in the folder of the state: machine and name of the only process that uses it."""

_SHARED: Final = "shared"
"""The content of the file once two processes have used the folder: then no process has a name."""

_LONGEST: Final = 200


class MemberName:
    """A name that no other process has while this one lives, and the next process gets again.

    A static member that was killed is back at once under its name; Kafka waits for others until
    the session ends. The name is in a locked file in the folder of the state. A process has one
    only if no second process and no other machine has ever used the folder: replicas that share a
    folder must hand their partitions over when one stops, which static members do not.

    Attributes:
        name: None if the folder is shared, or is a bucket, or cannot be locked.
    """

    def __init__(self, options: StateOptions) -> None:
        self.name: str | None = None
        self._descriptor: int | None = None
        if not is_url(options.path):
            # A folder that cannot be written is refused where checkpoints are, with its reason.
            with suppress(OSError):
                self._take(Path(options.path), Disk())

    def close(self) -> None:
        """Release the name."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _take(self, folder: Path, disk: Disk) -> None:
        with suppress(FileExistsError):
            disk.make_folder(folder)
        with suppress(FileExistsError):
            disk.create(folder / FILE, [])
        self._descriptor = os.open(folder / FILE, os.O_RDWR | os.O_CLOEXEC)
        try:
            self.name = _name_in(self._descriptor)
        except OSError:
            self.close()
            raise


def _name_in(descriptor: int) -> str | None:
    """The name in an open file, a new one for a new file; None if the folder is shared."""
    host = socket.gethostname()
    machine, _, name = os.pread(descriptor, _LONGEST, 0).decode(errors="replace").partition(" ")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        machine = ""
    else:
        if not machine:
            machine, name = host, f"streameval-{uuid.uuid4().hex[:12]}"
            _write(descriptor, f"{machine} {name}")
    if machine == host and name:
        return name
    _write(descriptor, _SHARED)
    return None


def _write(descriptor: int, text: str) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, text.encode(), 0)
    os.fsync(descriptor)
