"""Files of newline-delimited JSON as a source: one partition per file, one record per line.

SourceError is raised for a file that is missing, unreadable, damaged or truncated; lines before
the damage are delivered first.
"""

from __future__ import annotations

import hashlib
import os
import select
import stat
import time
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec

from streameval.events.errors import SourceError
from streameval.events.records import Assignment, Partition, PartitionOwner, RecordBatch
from streameval.sources.opening import decompress, open_descriptor, size, unreadable
from streameval.sources.remote import is_remote
from streameval.sources.settings import STDIN, FilesOptions
from streameval.sources.source import NO_END, UNHURRIED, Positions, SourceStatus
from streameval.statistics.kernel import block_lines

_BLOCK = 256 * 1024
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SIDE_BY_SIDE = 16
LONGEST_LINE: Final = 1 << 26
"""Longest line that is read, bytes: more than Kafka takes for a record."""
_HEAD: Final = 4096
"""Bytes of a file, as stored, from which its identity is computed."""


class NdjsonFile:
    """An open file of lines; "-" is standard input.

    Every line counts, including blank lines and a last line without its newline. A byte order
    mark, which some editors write, is not part of the first line.

    `path`: plain, gzip or zstd, a pipe, or "-". `grows`: True if a program may still write to it.
    Then a last line without its newline that is not yet a JSON object is not delivered.

    Attributes:
        bytes_read: bytes read from the file so far, as stored (compressed).
        unfinished: bytes of the last line that was not delivered; 0 without one.
    """

    def __init__(self, path: str, *, grows: bool = False) -> None:
        self.path = path
        self.partition = Partition(path, 0)
        self.bytes_read = 0
        self.lines_read = 0
        self.finished = False
        self.unfinished = 0
        self._grows = grows
        self._damage: SourceError | None = None
        self._descriptor = open_descriptor(path)
        self._complete_lines = self._with_newlines(decompress(path, self._blocks()))

    def fileno(self) -> int:
        """The descriptor, for polling."""
        return self._descriptor

    def read(self) -> RecordBatch:
        """The lines completed by the next read of the file, without their newlines.

        The offset of a line is the number of lines before it; blank lines have one, and are left
        out. Empty if a line is still incomplete, and at the end. Waits until a pipe has data.
        """
        if self._damage is not None:
            raise self._damage
        try:
            block = next(self._complete_lines, None)
        except SourceError as error:
            self._damage = error
            raise
        self.finished = block is None
        is_marked = block and not self.lines_read and block.startswith(_BYTE_ORDER_MARK)
        start = len(_BYTE_ORDER_MARK) if is_marked else 0
        values, offsets, self.lines_read = block_lines(block or b"", start, self.lines_read)
        return RecordBatch(
            partition=self.partition,
            values=values,
            offsets=offsets,
            next_offset=self.lines_read,
        )

    def _with_newlines(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        """The complete lines of each block, with those before it; empty if no line ends in it."""
        begun, size = list[bytes](), 0
        for block in blocks:
            begun.append(block)
            size += len(block)
            end = block.rfind(b"\n") + 1
            if end:
                size = len(block) - end
                complete, begun = b"".join(begun), [block[end:]] if size else []
                yield complete
            else:
                yield b""
            if size > LONGEST_LINE:
                problem = f"line {self.lines_read + 1:,} is longer than {LONGEST_LINE:,} bytes"
                raise SourceError(self.path, problem, "write one record per line")
        last = b"".join(begun)
        record = last if self.lines_read else last.removeprefix(_BYTE_ORDER_MARK)
        is_blank = not record or record.isspace()
        if self._grows and not is_blank and _fields(record) is None:
            self.unfinished = len(last)
        elif last:
            yield last + b"\n"

    def close(self) -> None:
        """Close the file; may be called twice."""
        if self._descriptor > 0:
            os.close(self._descriptor)
        self._descriptor = -1

    def _blocks(self) -> Iterator[bytes]:
        try:
            while block := os.read(self._descriptor, _BLOCK):
                self.bytes_read += len(block)
                yield block
        except OSError as error:
            raise unreadable(self.path, error) from error


def lines(path: str) -> Iterator[bytes]:
    r"""The lines of one file without their newlines, including an unterminated last line.

    Blank lines are left out. `path`: plain, gzip or zstd (by content, members joined), a pipe, "-".
    """
    file = NdjsonFile(path)
    try:
        while not file.finished:
            yield from filter(None, file.read().values)
    finally:
        file.close()


class FilesSource:
    """Lines of files, read in parallel.

    The offset of a record is the number of lines before it, including blank lines, which are not
    records. To follow a file that grows, pipe `tail -f` into "-".

    `grows`: True if a program may still write to the files, and another process reads on from the
    end of this one. A half-written last line is left to that process; otherwise it is a record,
    which the decoder rejects. Nothing is appended to a pipe or an object that has ended.
    """

    cluster = "files"
    budget = UNHURRIED

    def __init__(self, options: FilesOptions, *, grows: bool = False) -> None:
        self.paths = options.paths
        self._grows = grows
        self._unfinished: list[str] = []
        self._waiting: deque[str] = deque()
        self._files: list[NdjsonFile] = []
        self._owner: PartitionOwner = Positions()
        self._positions: Mapping[Partition, int] = {}
        self._joined = False
        self._ends: Mapping[Partition, int] = {}
        self._bytes_of_ended = 0
        self._paused: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """The path, or the number of files."""
        return self.paths[0] if len(self.paths) == 1 else f"{len(self.paths)} files"

    @property
    def status(self) -> SourceStatus:
        """The files that have ended, with their numbers of lines."""
        return SourceStatus(
            joined=self._joined,
            finished=self._finished,
            ended=self._ends.keys(),
            ends=self._ends,
            warning=" ".join(self._unfinished) or None,
        )

    @property
    def _finished(self) -> bool:
        return len(self._ends) == len(self.paths)

    @property
    def bytes_read(self) -> int:
        """Bytes read from the files so far, as stored (compressed)."""
        return self._bytes_of_ended + sum(file.bytes_read for file in self._files)

    def open(self, owner: PartitionOwner) -> None:
        """Check the files; the first `poll` assigns them.

        The start offset of a file is the number of lines to skip.
        """
        self.close()
        for path, count in Counter(self.paths).most_common(1):
            if count > 1:
                raise SourceError(path, "given twice", "give each file once")
        for path in self.paths:
            size(path)
        self._owner, self._joined = owner, False
        self._waiting = deque(self.paths)
        self._ends = {}
        self._unfinished = []
        self._bytes_of_ended = 0

    def poll(self, seconds: float) -> Sequence[RecordBatch]:
        """The next block of every file that has one; a batch may have only blank lines."""
        if not self._joined:
            logs = [
                Assignment(
                    partition=Partition(path, 0),
                    identity=_identity(path),
                    begin=0,
                    end=NO_END,
                    start=0,
                    kind="file",
                )
                for path in self.paths
            ]
            self._positions = self._owner.assigned(logs)
            self._joined = True
        deadline = time.monotonic() + seconds
        while True:
            self._open_more()
            poller = select.poll()
            reading = [file for file in self._files if file.path not in self._paused]
            for file in reading:
                poller.register(file, select.POLLIN)
            remaining = max(0.0, deadline - time.monotonic())
            ready = {descriptor for descriptor, _ in poller.poll(remaining * 1000)}
            read = [self._batch(file) for file in reading if file.fileno() in ready]
            batches = [batch for batch in read if batch is not None]
            if batches or self._finished or time.monotonic() >= deadline:
                return batches

    def commit(self, positions: Mapping[Partition, int], *, wait: bool = True) -> str | None:
        """None: there is no problem to report."""

    def pause(self, partitions: Collection[Partition]) -> None:
        """Pause these files until the next call."""
        self._paused = frozenset(partition.topic for partition in partitions)

    def close(self) -> None:
        """Close the files; may be called twice."""
        self._waiting.clear()
        while self._files:
            self._files.pop().close()

    def _open_more(self) -> None:
        """Open waiting files, so that enough are read besides those that are paused."""
        read = sum(file.path not in self._paused for file in self._files)
        unpaused = (path for path in self._waiting if path not in self._paused)
        for path in list(islice(unpaused, max(0, _SIDE_BY_SIDE - read))):
            self._waiting.remove(path)
            growing = self._grows and _identity(path) != STDIN
            self._files.append(NdjsonFile(path, grows=growing))

    def _batch(self, file: NdjsonFile) -> RecordBatch | None:
        before = file.lines_read
        batch = file.read()
        if file.finished:
            self._end(file)
        start = max(before, self._positions.get(file.partition, 0))
        if file.lines_read <= start:
            return None
        unread = bisect_left(batch.offsets, start)
        return batch.piece(unread, len(batch.values), batch.next_offset)

    def _end(self, file: NdjsonFile) -> None:
        position = self._positions.get(file.partition, 0)
        if file.lines_read < position:
            problem = f"has only {file.lines_read} lines, but {position} were read before"
            raise SourceError(file.path, problem, "restore the file that was read before")
        if file.unfinished:
            self._unfinished.append(
                f"the last line of {file.path} is not complete yet ({file.unfinished:,} bytes "
                "without a line end): the next start reads it."
            )
        # Replaced, never changed: a status holds it.
        self._ends = {**self._ends, file.partition: file.lines_read}
        self._bytes_of_ended += file.bytes_read
        self._files.remove(file)
        file.close()


def first_record(paths: Sequence[str]) -> Mapping[str, msgspec.Raw]:
    """The fields of the first record of JSON lines; none if it cannot be read twice."""
    # A pipe cannot be read twice, and an object would be fetched twice.
    if not paths or is_remote(paths[0]) or size(paths[0]) is None:
        return {}
    return _fields(next(islice(lines(paths[0]), 1), b"")) or {}


def _fields(line: bytes) -> Mapping[str, msgspec.Raw] | None:
    """The fields of a JSON object; None if the line is not a complete one."""
    try:
        return msgspec.json.decode(line, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _identity(path: str) -> str:
    """A digest of the decompressed first line; "-" for a pipe, which can be read only once.

    Appending to a file does not change it. Only the first 4 KiB are read; if they contain no
    decompressed byte, they are digested as stored.
    """
    if path == STDIN or is_remote(path):
        return STDIN
    try:
        if not stat.S_ISREG(Path(path).stat().st_mode):
            return STDIN
        with Path(path).open("rb") as file:
            head = file.read(_HEAD)
    except OSError as error:
        raise unreadable(path, error) from error
    content = b""
    # The reader reports damage, after delivering the lines before it.
    with suppress(SourceError):
        content = next(filter(None, decompress(path, iter((head,)))), b"")
    line = content.partition(b"\n")[0][:_HEAD] if content else head
    return hashlib.blake2b(line, digest_size=16).hexdigest()
