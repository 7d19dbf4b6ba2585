"""What a store asks of a disk, call by call: a test's twin forgets what was not made durable."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Protocol

_NO_LINKS: Final = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
_NO_FOLDER_SYNC: Final = frozenset({errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS})
_BUFFER: Final = 1 << 20


class Disk(Protocol):
    """Files and folders; every call may raise OSError. Nothing is durable but what was synced."""

    def create(self, path: Path, pieces: Iterable[bytes]) -> None:
        """A new file of these bytes, each piece written as it comes; not yet durable.

        Raises:
            FileExistsError: there is one of that name.
        """

    def sync(self, path: Path) -> None:
        """Make the bytes of a file durable; its name becomes so with its folder."""

    def make_folder(self, path: Path) -> None:
        """A new folder in one that is there.

        Raises:
            FileExistsError: there is something of that name.
            FileNotFoundError: its parent is not there.
        """

    def sync_folder(self, path: Path) -> None:
        """Make the names in a folder durable: files created, renamed and removed."""

    def rename(self, source: Path, target: Path) -> None:
        """Give a file another name, in place of what has it: at once, or not at all."""

    def rename_new(self, source: Path, target: Path) -> None:
        """Give a file a name that nothing has.

        Raises:
            FileExistsError: somebody was first.
        """

    def remove(self, path: Path) -> None:
        """A file goes."""

    def names(self, folder: Path) -> list[str]:
        """What is in a folder, sorted.

        Raises:
            FileNotFoundError: there is no such folder.
            NotADirectoryError: it is a file.
        """

    def read(self, path: Path, start: int, size: int) -> bytes:
        """At most `size` bytes from `start` on; fewer where the file ends."""

    def size(self, path: Path) -> int:
        """Bytes of a file."""

    def modified(self, path: Path) -> float:
        """When a file was written: seconds, by the clock of the disk or of its server."""


class RealDisk:
    """The disks of this machine, and what it has mounted."""

    def create(self, path: Path, pieces: Iterable[bytes]) -> None:
        """See `Disk.create`."""
        with path.open("xb", buffering=_BUFFER) as file:
            for piece in pieces:
                file.write(piece)

    def sync(self, path: Path) -> None:
        """See `Disk.sync`."""
        _sync(path, os.O_RDWR)

    def make_folder(self, path: Path) -> None:
        """See `Disk.make_folder`."""
        path.mkdir()

    def sync_folder(self, path: Path) -> None:
        """See `Disk.sync_folder`; where a file system has no such call, it decides itself."""
        try:
            _sync(path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            if error.errno not in _NO_FOLDER_SYNC:
                raise

    def rename(self, source: Path, target: Path) -> None:
        """See `Disk.rename`."""
        source.replace(target)

    def rename_new(self, source: Path, target: Path) -> None:
        """See `Disk.rename_new`; where there are no links, two at the same moment both succeed."""
        try:
            os.link(source, target)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            if target.exists():
                raise FileExistsError(
                    errno.EEXIST, os.strerror(errno.EEXIST), str(target)
                ) from None
            source.rename(target)
            return
        source.unlink()

    def remove(self, path: Path) -> None:
        """See `Disk.remove`."""
        path.unlink()

    def names(self, folder: Path) -> list[str]:
        """See `Disk.names`."""
        return sorted(each.name for each in folder.iterdir())

    def read(self, path: Path, start: int, size: int) -> bytes:
        """See `Disk.read`."""
        with path.open("rb", buffering=0) as file:
            file.seek(start)
            return file.read(size)

    def size(self, path: Path) -> int:
        """See `Disk.size`."""
        return path.stat().st_size

    def modified(self, path: Path) -> float:
        """See `Disk.modified`."""
        return path.stat().st_mtime


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        os.close(descriptor)
