"""Dead letters in a file, one line of JSON each."""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Iterator, Sequence
from io import FileIO
from pathlib import Path
from typing import Final

from streameval.errors import DeadLetterError
from streameval.letters.lines import letter_in, line_of
from streameval.pipeline.letters import DeadLetter

_LOG: Final = logging.getLogger(__name__)
_PIECE: Final = 64 * 1024
_PRIVATE: Final = 0o600
"""Letters hold what users did; only the daemon's own user reads a file that it creates."""


class LetterFile:
    """Appends to a file that one process at a time may write.

    Where a crash cut the last line off, its beginning goes to a file of the same name and
    `.torn`, and the log says so: that letter is written again, as no checkpoint passed it.

    Args:
        path: made where it is missing; its folder must be there.

    Raises:
        DeadLetterError: the file cannot be written, or another process writes it.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: FileIO | None = None
        try:
            self._opened()
        except OSError as error:
            self.close()
            raise self._failure(error) from error

    def write(self, letters: Sequence[DeadLetter]) -> None:
        """Return when a line of each is on the disk.

        Raises:
            DeadLetterError: the disk does not take them; a line cut off is repaired before the
                next ones.
        """
        try:
            file = self._opened()
            _write_whole(file, b"".join(map(line_of, letters)))
            os.fsync(file.fileno())
        except OSError as error:
            self.close()
            raise self._failure(error) from error

    def close(self) -> None:
        """Let go of the file; may be called twice."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _opened(self) -> FileIO:
        if self._file is None:
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
            self._file = FileIO(os.open(self._path, flags, mode=_PRIVATE), "rb+")
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _repair(self._path, self._file)
            _keep(Path(self._path).parent)
        return self._file

    def _failure(self, error: OSError) -> DeadLetterError:
        if isinstance(error, BlockingIOError):
            problem, remedy = "another process writes it", "give each process a file of its own"
        else:
            problem = (error.strerror or str(error)).lower()
            remedy = "make room or correct [dead_letters] path; they are written again after that"
        return DeadLetterError(self._path, problem, remedy)


def letters_in(path: str) -> Iterator[DeadLetter]:
    """The letters that are in a file now, in its order; a last line cut off is not there yet.

    Raises:
        DeadLetterError: the file cannot be read, or a line of it is no letter.
    """
    try:
        with Path(path).open("rb") as file:
            left = os.fstat(file.fileno()).st_size
            for number, line in enumerate(file, 1):
                left -= len(line)
                if left < 0 or not line.endswith(b"\n"):
                    return
                yield _letter_at(path, number, line)
    except OSError as error:
        problem = (error.strerror or str(error)).lower()
        raise DeadLetterError(path, problem, "make it readable") from error


def _letter_at(path: str, number: int, line: bytes) -> DeadLetter:
    try:
        return letter_in(line)
    except ValueError as error:
        remedy = "take the line out of the file"
        raise DeadLetterError(path, f"line {number} is no letter ({error})", remedy) from error


def _write_whole(file: FileIO, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file.fileno(), view) :]


def _repair(path: str, file: FileIO) -> None:
    """Cut off what stands behind the last line's end, and put it beside."""
    size = os.fstat(file.fileno()).st_size
    whole = _end_of_lines(file, size)
    if whole == size:
        return
    torn = Path(f"{path}.torn")
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    with FileIO(os.open(torn, flags, mode=_PRIVATE), "ab") as beside:
        beside.write(os.pread(file.fileno(), size - whole, whole) + b"\n")
        os.fsync(beside.fileno())
    os.ftruncate(file.fileno(), whole)
    os.fsync(file.fileno())
    _LOG.warning("the last line of %s was cut off; its beginning is in %s now", path, torn)


def _end_of_lines(file: FileIO, size: int) -> int:
    """Where the last whole line ends; looked for from the end."""
    end = size
    while end > 0:
        start = max(end - _PIECE, 0)
        found = os.pread(file.fileno(), end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def _keep(folder: Path) -> None:
    """Make a new name in the folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
