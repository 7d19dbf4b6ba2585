"""Storage for the files of a store: the protocol, and a folder with its file system calls."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from streameval.checkpoints.format import TEMPORARY, decode_name
from streameval.events.errors import StoreError

# Errors of file systems without hard links, and without fsync of folders.
_NO_LINKS: Final = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
_NO_FOLDER_SYNC: Final = frozenset({errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS})
_BUFFER: Final = 1 << 20
_DEEPEST: Final = 4
"""Depth of the folders below a store: topic, its id, partition, and one more."""


_SHARED: Final = stat.S_ISGID | stat.S_IWGRP
"""Bits of a folder that a group shares: files created in it get its group and its rights."""


class Disk:
    """The local file system; every call may raise OSError. Only synced data is durable.

    Only the user may access what it creates, whatever the umask; also the group in a folder with
    the setgid bit that the group may write, as replicas of several users share one.

    `progress`: called after each read and each sync.
    """

    def __init__(self, progress: Callable[[], None] = lambda: None) -> None:
        self._progress = progress

    def create(self, path: Path, slices: Iterable[bytes]) -> None:
        """Create a file, which is not durable yet.

        Raises:
            FileExistsError: the file exists.
        """
        with open(path, "xb", buffering=_BUFFER, opener=self._open) as file:
            file.writelines(slices)

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
        path.mkdir(0o700)
        if _is_shared(path.parent):
            path.chmod(0o2770)

    def _open(self, path: str, flags: int) -> int:
        descriptor = os.open(path, flags, 0o600)
        if _is_shared(Path(path).parent):
            os.fchmod(descriptor, 0o660)
        return descriptor

    def sync_folder(self, path: Path) -> None:
        """Make the entries of a folder durable; ignored if the file system does not support it."""
        try:
            _sync(path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            if error.errno not in _NO_FOLDER_SYNC:
                raise

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

    def remove_folder(self, path: Path) -> None:
        """Remove a folder if it is empty."""
        with suppress(OSError):
            path.rmdir()

    def names(self, folder: Path) -> list[str]:
        """The names in a folder, sorted.

        Raises:
            FileNotFoundError: the folder does not exist.
            NotADirectoryError: it is a file.
        """
        return sorted(child_path.name for child_path in folder.iterdir())

    def is_folder(self, path: Path) -> bool:
        """True if a path is a folder."""
        return path.is_dir()

    def read(self, path: Path, start: int, size: int) -> bytes:
        """Read at most `size` bytes from `start`; fewer at the end of the file."""
        with open(path, "rb", buffering=0, opener=_open_at_once) as file:
            file.seek(start)
            # The size may be forged, and `read` allocates all of it first.
            data = file.read(min(size, max(0, os.fstat(file.fileno()).st_size - start)))
        self._progress()
        return data

    def size(self, path: Path) -> int:
        """Bytes of a file."""
        return path.stat().st_size

    def modified(self, path: Path) -> float:
        """Modification time in seconds, by the clock of the disk or its server."""
        return path.stat().st_mtime


def _open_at_once(path: str, flags: int) -> int:
    """Open a file without blocking: a pipe of that name has no bytes."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


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


def missing_file(path: str) -> FileNotFoundError:
    """The error for a file or an object that does not exist, with its path as `filename`."""
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


def _is_shared(folder: Path) -> bool:
    return folder.stat().st_mode & _SHARED == _SHARED


def try_folder(path: str) -> str:
    """Check that this user may write a folder, or create it; creates nothing.

    Raises:
        StoreError: this user may not.
    """
    folder = Path(path).absolute()
    there = next(candidate for candidate in (folder, *folder.parents) if os.path.exists(candidate))  # noqa: PTH110  False without rights
    if not there.is_dir():
        raise store_error(folder, OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path))
    if not os.access(there, os.R_OK | os.W_OK | os.X_OK):
        is_read_only = os.statvfs(there).f_flag & os.ST_RDONLY
        number = errno.EROFS if is_read_only else errno.EACCES
        raise store_error(folder, OSError(number, os.strerror(number), path))
    return f"{path} can be {'written' if there == folder else 'created'}"


# The disk reports progress after each read; one read of a large file could look like a hang.
_CHUNK: Final = 1 << 20


class StoredFile(NamedTuple):
    """A file in a storage.

    Attributes:
        modified: modification time by the clock of the storage, seconds since the epoch.
        tag: changes whenever the content does.
    """

    size: int
    modified: float
    tag: str


class Storage(Protocol):
    """Files below a folder or below a prefix of a bucket; keys are relative to it.

    Thread-safe. Every call raises StoreError if the storage fails.

    Attributes:
        path: of the folder, or URL of the bucket and prefix.
        remedy: for an empty storage.
        remote: True if calls are slow, so that they are made concurrently.
    """

    path: str
    remedy: str
    remote: bool

    def get(self, key: str) -> bytes:
        """The bytes of a file.

        Raises:
            FileNotFoundError: it does not exist.
        """
        ...

    def get_range(self, key: str, start: int, size: int) -> bytes:
        """Read at least one byte of a file; fewer than `size` at its end.

        Raises:
            FileNotFoundError: it does not exist.
        """
        ...

    def put_new(self, key: str, pieces: Iterable[bytes]) -> bool:
        """Write a file atomically and durably unless it exists.

        Returns:
            True if this call wrote it.
        """
        ...

    def files(self, folder: str = "") -> dict[str, StoredFile]:
        """All files below a folder, by key relative to it; one listing."""
        ...

    def delete(self, keys: Sequence[str]) -> None:
        """Delete files, and their folders if these are empty then; missing ones are ignored."""

    def sync(self, folder: str) -> None:
        """Make the existing files of a folder durable, as their writer may have been killed.

        Files that have been removed since are ignored.
        """

    def path_of(self, key: str) -> str:
        """Path or URL of a file."""
        ...


class Folder:
    """A folder; see `Storage`."""

    remedy = "check that the disk is mounted"
    remote = False

    def __init__(self, path: Path, disk: Disk) -> None:
        self.path = str(path)
        self._top = path
        self._disk = disk
        self._made: set[Path] = set()

    def get(self, key: str) -> bytes:
        """See `Storage.get`."""
        path = self._top / key
        with self._reading(path):
            pieces = range(0, self._disk.size(path), _CHUNK)
            return b"".join([self._disk.read(path, start, _CHUNK) for start in pieces])

    def get_range(self, key: str, start: int, size: int) -> bytes:
        """See `Storage.get_range`."""
        path = self._top / key
        with self._reading(path):
            return self._disk.read(path, start, size)

    def put_new(self, key: str, pieces: Iterable[bytes]) -> bool:
        """See `Storage.put_new`."""
        path = self._top / key
        with store_errors(self._top), self._temporary(path, pieces) as temporary:
            try:
                self._disk.rename_new(temporary, path)
                first = True
            except FileExistsError:
                self._disk.remove(temporary)
                first = False
            self._disk.sync_folder(path.parent)
        return first

    def files(self, folder: str = "") -> dict[str, StoredFile]:
        """See `Storage.files`."""
        result: dict[str, StoredFile] = {}
        self._list(self._top / folder, "", result)
        return result

    def _list(self, folder: Path, within: str, result: dict[str, StoredFile]) -> None:
        names: Sequence[str] = ()
        with suppress(FileNotFoundError), self._reading(folder):
            names = self._disk.names(folder)
        for name in names:
            path = folder / name
            with suppress(FileNotFoundError), self._reading(path):
                if not self._disk.is_folder(path):
                    size, at = self._disk.size(path), self._disk.modified(path)
                    result[f"{within}{name}"] = StoredFile(size, at, f"{at!r}")
                elif decode_name(name) is not None and within.count("/") < _DEEPEST:
                    # Other folders, as lost+found, may not be ours to read.
                    self._list(path, f"{within}{name}/", result)

    def delete(self, keys: Sequence[str]) -> None:
        """See `Storage.delete`."""
        paths = [self._top / key for key in keys]
        with store_errors(self._top):
            # Not synced: a superseded file that comes back is removed with the next round.
            for path in paths:
                with suppress(FileNotFoundError):
                    self._disk.remove(path)
            for folder in {path.parent for path in paths}:
                self._disk.remove_folder(folder)

    def sync(self, folder: str) -> None:
        """See `Storage.sync`."""
        with store_errors(self._top), suppress(FileNotFoundError):
            self._disk.sync_folder(self._top / folder)

    def path_of(self, key: str) -> str:
        """See `Storage.path_of`."""
        return str(self._top / key)

    @contextmanager
    def _reading(self, path: Path) -> Iterator[None]:
        try:
            yield
        except (FileNotFoundError, NotADirectoryError) as error:
            raise missing_file(str(path)) from error
        except OSError as error:
            raise store_error(self._top, error) from error

    @contextmanager
    def _temporary(self, target: Path, pieces: Iterable[bytes]) -> Iterator[Path]:
        """A durable temporary file next to the target; removed after an error."""
        self._make(target.parent)
        path = target.with_name(f"{target.name}.{secrets.token_hex(8)}{TEMPORARY}")
        try:
            self._disk.create(path, pieces)
            self._disk.sync(path)
            yield path
        except Exception:
            # Others may have removed a folder.
            self._made.clear()
            with suppress(OSError):
                self._disk.remove(path)
            raise

    def _make(self, folder: Path) -> None:
        """Create the folders down to `folder` and make their entries durable, once each.

        Existing ones are synced too, as a process may have been killed after creating them.
        """
        if folder in self._made:
            return
        if folder != self._top:
            self._make(folder.parent)
        _make_folder(self._disk, folder)
        self._made.add(folder)


def _make_folder(disk: Disk, folder: Path) -> None:
    try:
        disk.make_folder(folder)
    except FileExistsError:
        # Above the store we may lack read access, but have created nothing there.
        with suppress(PermissionError):
            disk.sync_folder(folder.parent)
        return
    except FileNotFoundError:
        if folder == folder.parent:
            raise
        _make_folder(disk, folder.parent)
        # Another process may have created it meanwhile.
        with suppress(FileExistsError):
            disk.make_folder(folder)
    disk.sync_folder(folder.parent)
