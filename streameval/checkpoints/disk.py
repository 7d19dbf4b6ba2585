"""File system calls of a store, with a remedy for each failure."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from streameval.errors import StoreError

# What file systems without hard links, and without fsync of folders, answer.
_NO_LINKS: Final = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
_NO_FOLDER_SYNC: Final = frozenset({errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS})
_BUFFER: Final = 1 << 20


class Disk:
    """The local file system; every call may raise OSError. Only synced data is durable.

    `progress`: called after each read and each sync.
    """

    def __init__(self, progress: Callable[[], None] = lambda: None) -> None:
        self._progress = progress

    def create(self, path: Path, slices: Iterable[bytes]) -> None:
        """Create a file, which is not durable yet.

        Raises:
            FileExistsError: the file exists.
        """
        with path.open("xb", buffering=_BUFFER) as file:
            for piece in slices:
                file.write(piece)

    def sync(self, path: Path) -> None:
        """Make the content of a file durable; `sync_folder` does so for its name."""
        _sync(path, os.O_RDWR)
        self._progress()

    def make_folder(self, path: Path) -> None:
        """Create a folder in an existing one.

        Raises:
            FileExistsError: the path exists.
            FileNotFoundError: its parent does not exist.
        """
        path.mkdir()

    def sync_folder(self, path: Path) -> None:
        """Make the entries of a folder durable; ignored if the file system does not support it."""
        try:
            _sync(path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            if error.errno not in _NO_FOLDER_SYNC:
                raise

    def rename(self, source: Path, target: Path) -> None:
        """Rename a file atomically, replacing the target."""
        source.replace(target)

    def rename_new(self, source: Path, target: Path) -> None:
        """Rename a file unless the target exists.

        On a file system without hard links, two concurrent calls may both succeed.

        Raises:
            FileExistsError: the target exists.
        """
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
        """Remove a file."""
        path.unlink()

    def names(self, folder: Path) -> list[str]:
        """The names in a folder, sorted.

        Raises:
            FileNotFoundError: the folder does not exist.
            NotADirectoryError: it is a file.
        """
        return sorted(each.name for each in folder.iterdir())

    def read(self, path: Path, start: int, size: int) -> bytes:
        """At most `size` bytes from `start`; fewer at the end of the file."""
        with path.open("rb", buffering=0) as file:
            file.seek(start)
            data = file.read(size)
        self._progress()
        return data

    def size(self, path: Path) -> int:
        """Bytes of a file."""
        return path.stat().st_size

    def modified(self, path: Path) -> float:
        """Modification time in seconds, by the clock of the disk or its server."""
        return path.stat().st_mtime


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        os.close(descriptor)


_ELSEWHERE = "or name another folder under [state] path"
_REMEDIES: Final[Mapping[int, str]] = {
    errno.ENOSPC: f"free some space there, {_ELSEWHERE}",
    errno.EDQUOT: f"free some space there or raise the quota, {_ELSEWHERE}",
    errno.EACCES: f"let this user read and write there, {_ELSEWHERE}",
    errno.EPERM: f"let this user read and write there, {_ELSEWHERE}",
    errno.EROFS: f"mount it for writing, {_ELSEWHERE}",
    errno.EIO: f"check the disk and the kernel log, {_ELSEWHERE}",
    errno.ENOTDIR: "a file is in the way of a folder; name a folder under [state] path",
    errno.EEXIST: "a file is in the way of a folder; name a folder under [state] path",
    errno.ENAMETOOLONG: "give the file that is read a shorter path",
    errno.ENOENT: "check that the disk is mounted",
}


@contextmanager
def store_errors(store: Path) -> Iterator[None]:
    """Raise StoreError for each OSError of the block."""
    try:
        yield
    except OSError as error:
        raise store_error(store, error) from error


def store_error(store: Path, error: OSError) -> StoreError:
    """A StoreError with the path, the problem and a remedy."""
    where = str(error.filename or store)
    problem = (error.strerror or str(error)).lower()
    return StoreError(
        where, problem, _REMEDIES.get(error.errno or 0, f"check the disk, {_ELSEWHERE}")
    )


def try_folder(path: str) -> str:
    """Whether this user may write a folder, or create it; creates nothing.

    Raises:
        StoreError: this user may not.
    """
    folder = Path(path).absolute()
    there = next(each for each in (folder, *folder.parents) if os.path.exists(each))  # noqa: PTH110  False without rights
    if not there.is_dir():
        raise store_error(folder, OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path))
    if not os.access(there, os.R_OK | os.W_OK | os.X_OK):
        raise store_error(folder, OSError(errno.EACCES, os.strerror(errno.EACCES), path))
    return f"{path} can be {'written' if there == folder else 'created'}"
