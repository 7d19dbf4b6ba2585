"""One file of lines, read block by block."""

from __future__ import annotations

import os
from collections.abc import Iterator

from streameval.errors import SourceError
from streameval.records import Partition, RecordBatch
from streameval.sources.compression import decompressed
from streameval.sources.opening import opened, unreadable

_BLOCK = 256 * 1024
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class NdjsonFile:
    """An open file of lines; "-" is standard input.

    Every line is counted, also a blank one and a last one without its newline; none is judged.
    A byte order mark, which some editors put at the beginning, is no part of the first.

    Args:
        path: plain, gzip or zstd, a pipe, or "-".

    Attributes:
        path: as given.
        bytes_read: bytes taken from the file so far, as they lie in it.
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
        self._damage: SourceError | None = None
        self._descriptor = opened(path)
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
        if self._damage is not None:
            raise self._damage
        try:
            lines = next(self._lists, None)
        except SourceError as error:
            self._damage = error
            raise
        if lines is None:
            self.finished = True
            return []
        if lines and not self.lines_read:
            lines[0] = lines[0].removeprefix(_BYTE_ORDER_MARK)
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


def is_blank(line: bytes) -> bool:
    """Whether a line holds nothing, which newline-delimited JSON allows between records."""
    return not line or line.isspace()


def numbered(partition: Partition, lines: list[bytes], start: int) -> RecordBatch:
    """Lines as records, the first of them at offset `start`; blank ones only count."""
    numbers = range(start, start + len(lines))
    values = [line for line in lines if not is_blank(line)]
    blank = len(values) < len(lines)
    return RecordBatch(
        partition=partition,
        values=values,
        offsets=[n for n in numbers if not is_blank(lines[n - start])] if blank else numbers,
        next_offset=numbers.stop,
    )
