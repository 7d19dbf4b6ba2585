"""Dead letters in a file, one JSON object per line.

DeadLetterError is raised if the file cannot be read or written, or has other content.
"""

from __future__ import annotations

import base64
import fcntl
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from io import FileIO
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from streameval.engine.dead_letters import DeadLetter, Stage
from streameval.events.errors import DeadLetterError
from streameval.events.records import Partition

_LOG: Final = logging.getLogger(__name__)
_BLOCK: Final = 64 * 1024
_CORRECT: Final = "let this user write there, or correct [dead_letters] path"
_RETRY: Final = "free space or correct [dead_letters] path; the letters are kept and retried"
_PRIVATE: Final = 0o600
"""Letters contain users' actions, so only the daemon's user may read the file."""


class DeadLetterFile:
    """Appends to a file; a lock admits one process at a time.

    If a crash tore the last line, its beginning is moved to a file with the suffix `.torn`, and
    logged. No checkpoint covers that record, so its letter is written again.

    Args:
        path: created if missing; its folder must exist.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: FileIO | None = None
        try:
            self._opened()
        except OSError as error:
            self.close()
            raise self._failure(error, _CORRECT) from error

    def write(self, letters: Sequence[DeadLetter]) -> None:
        """Write a line for each letter and sync them to disk."""
        try:
            file = self._opened()
            _write_all(file, b"".join(map(line_of, letters)))
            os.fsync(file.fileno())
        except OSError as error:
            self.close()
            raise self._failure(error, _RETRY) from error

    def close(self) -> None:
        """Close the file; may be called twice."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _opened(self) -> FileIO:
        if self._file is None:
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
            self._file = FileIO(os.open(self._path, flags, mode=_PRIVATE), "rb+")
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _repair(self._path, self._file)
            _sync_folder(Path(self._path).parent)
        return self._file

    def _failure(self, error: OSError, remedy: str) -> DeadLetterError:
        if isinstance(error, BlockingIOError):
            problem, remedy = "another process writes it", "give each process its own file"
        else:
            problem = (error.strerror or str(error)).lower()
        return DeadLetterError(self._path, problem, remedy)


def try_file(path: str) -> str:
    """Whether this user may write a file of dead letters, or create it; creates nothing.

    Raises:
        DeadLetterError: this user may not.
    """
    there = os.path.exists(path)  # noqa: PTH110  False without rights
    if there and Path(path).is_dir():
        problem, remedy = "is a directory", "name a file in [dead_letters] path"
    elif not there and not Path(path).parent.is_dir():
        problem, remedy = "its folder does not exist", "create it, or correct [dead_letters] path"
    elif os.access(path, os.R_OK | os.W_OK) or (
        not there and os.access(Path(path).parent, os.W_OK | os.X_OK)
    ):
        return f"{path} can be {'written' if there else 'created'}"
    else:
        problem, remedy = "permission denied", "let this user write there"
    raise DeadLetterError(path, problem, remedy)


def read_letters(path: str) -> Iterator[DeadLetter]:
    """The letters that a file has now, in order, without an incomplete last line."""
    try:
        with Path(path).open("rb") as file:
            remaining = os.fstat(file.fileno()).st_size
            for number, line in enumerate(file, 1):
                remaining -= len(line)
                if remaining < 0 or not line.endswith(b"\n"):
                    return
                yield _letter_at(path, number, line)
    except OSError as error:
        problem = (error.strerror or str(error)).lower()
        raise DeadLetterError(path, problem, "make it readable") from error


class Base64(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bytes that are not UTF-8 text."""

    base64: str


Content: TypeAlias = str | Base64
"""Bytes, as text if they are UTF-8."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata of a letter, as written."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None = None
    size: int | None = None
    stage: Stage
    reason: str
    message: str

    @classmethod
    def of(cls, letter: DeadLetter) -> Facts:
        """The metadata of this letter."""
        return Facts(
            topic=letter.partition.topic,
            partition=letter.partition.number,
            offset=letter.offset,
            timestamp=letter.timestamp_ms,
            size=letter.size,
            stage=letter.stage,
            reason=letter.reason,
            message=letter.message,
        )

    def letter(
        self, key: bytes | None, headers: Iterable[tuple[str, bytes]], value: bytes
    ) -> DeadLetter:
        """The letter with this metadata and the content of its record."""
        return DeadLetter(
            partition=Partition(self.topic, self.partition),
            offset=self.offset,
            timestamp_ms=self.timestamp,
            key=key,
            headers=tuple(headers),
            value=value,
            stage=self.stage,
            reason=self.reason,
            message=self.message,
            size=self.size,
        )


class Line(Facts, frozen=True, kw_only=True):
    """A letter as written."""

    key: Content | None
    headers: tuple[tuple[str, Content], ...]
    value: Content


def line_of(letter: DeadLetter) -> bytes:
    """The letter as one line, including the newline."""
    line = Line(
        **msgspec.structs.asdict(Facts.of(letter)),
        key=None if letter.key is None else _content(letter.key),
        headers=tuple((name, _content(value)) for name, value in letter.headers),
        value=_content(letter.value),
    )
    return msgspec.json.encode(line) + b"\n"


def letter_in(line: bytes) -> DeadLetter:
    """The letter on a line; raises ValueError if the line is not a letter."""
    try:
        entry = msgspec.json.decode(line, type=Line)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(str(error)) from error
    key = None if entry.key is None else _bytes(entry.key)
    headers = ((name, _bytes(value)) for name, value in entry.headers)
    return entry.letter(key, headers, _bytes(entry.value))


def _content(value: bytes) -> Any:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return Base64(base64.b64encode(value).decode())


def _bytes(content: Content) -> bytes:
    if isinstance(content, Base64):
        return base64.b64decode(content.base64, validate=True)
    return content.encode()


def _letter_at(path: str, number: int, line: bytes) -> DeadLetter:
    try:
        return letter_in(line)
    except ValueError as error:
        problem = f"line {number} is not a dead letter ({error})"
        raise DeadLetterError(path, problem, "remove the line") from error


def _write_all(file: FileIO, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file.fileno(), view) :]


def _repair(path: str, file: FileIO) -> None:
    size = os.fstat(file.fileno()).st_size
    whole = _end_of_lines(file, size)
    if whole == size:
        return
    torn = Path(f"{path}.torn")
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    with FileIO(os.open(torn, flags, mode=_PRIVATE), "ab") as target:
        target.write(os.pread(file.fileno(), size - whole, whole) + b"\n")
        os.fsync(target.fileno())
    os.ftruncate(file.fileno(), whole)
    os.fsync(file.fileno())
    _LOG.warning("the last line of %s was incomplete; it is in %s now", path, torn)


def _end_of_lines(file: FileIO, size: int) -> int:
    """The end of the last complete line, searched from the end of the file."""
    end = size
    while end > 0:
        start = max(end - _BLOCK, 0)
        newline = os.pread(file.fileno(), end - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
