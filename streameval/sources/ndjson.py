"""One file of lines, read block by block."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from streameval.errors import SourceError
from streameval.sources.compression import decompressed

STDIN = "-"
_BLOCK = 256 * 1024


class NdjsonFile:
    """An open file of lines; "-" is standard input.

    Every line is counted, also a blank one and a last one without its newline; none is judged.

    Args:
        path: plain, gzip or zstd, a pipe, or "-".

    Attributes:
        path: as given.
        bytes_read: bytes taken from the file so far, as they lie in it.
        bytes_total: the file's size; None where it has none (a pipe).
        lines_read: lines handed out so far.
        finished: whether the end has been reached.

    Raises:
        SourceError: it is not there, not readable, or a directory.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.bytes_read = 0
        self.lines_read = 0
        self.finished = False
        self._descriptor = _opened(path)
        status = os.fstat(self._descriptor)
        self.bytes_total = status.st_size if stat.S_ISREG(status.st_mode) else None
        self._lists = _lists_of_lines(decompressed(path, self._blocks()))

    def fileno(self) -> int:
        """The descriptor, for waiting until there is something to read."""
        return self._descriptor

    def read(self) -> list[bytes]:
        """The lines completed by one more read of the file, without their newlines.

        Empty where a line is still unfinished, and at the end. Waits for a pipe to have data.

        Raises:
            SourceError: it cannot be read, or its compressed data is damaged or ends too early.
        """
        lines = next(self._lists, None)
        if lines is None:
            self.finished = True
            return []
        self.lines_read += len(lines)
        return lines

    def close(self) -> None:
        """Let go of the file; may be called twice."""
        if self._descriptor > 0:
            os.close(self._descriptor)
        self._descriptor = -1

    def _blocks(self) -> Iterator[bytes]:
        while block := self._block():
            self.bytes_read += len(block)
            yield block

    def _block(self) -> bytes:
        try:
            return os.read(self._descriptor, _BLOCK)
        except OSError as error:
            raise unreadable(self.path, error) from error


def unreadable(path: str, error: OSError) -> SourceError:
    """What to tell a user whose file the system would not give us."""
    problem = (error.strerror or str(error)).lower()
    if isinstance(error, IsADirectoryError):
        return SourceError(path, problem, f"name the files in it, for example {path}/*.ndjson")
    return SourceError(path, problem, "check the path and its permissions")


def _opened(path: str) -> int:
    if path == STDIN:
        return 0
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise unreadable(path, error) from error
    if stat.S_ISDIR(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise unreadable(path, IsADirectoryError(21, "is a directory"))
    return descriptor


def _lists_of_lines(blocks: Iterator[bytes]) -> Iterator[list[bytes]]:
    unfinished: list[bytes] = []
    for block in blocks:
        lines = block.split(b"\n")
        unfinished.append(lines.pop())
        if lines:
            lines[0] = b"".join(unfinished[:-1]) + lines[0]
            del unfinished[:-1]
        yield lines
    if last := b"".join(unfinished):
        yield [last]
