"""Files of newline-delimited JSON as a source: one partition a file, one record a line."""

from __future__ import annotations

import select
import time
from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping, Sequence

from streameval.errors import SourceError
from streameval.records import Assignment, Owner, Partition, RecordBatch
from streameval.sources.file_identity import identity
from streameval.sources.ndjson import NdjsonFile, is_blank, numbered
from streameval.sources.opening import size
from streameval.sources.options import FilesOptions
from streameval.sources.owning import NO_END, Handover

_SIDE_BY_SIDE = 16


def lines(path: str) -> Iterator[bytes]:
    r"""The lines of one file without their newlines; blank lines are left out.

    Args:
        path: plain, gzip or zstd (by content, members joined), a pipe, or "-" for standard
            input. A last line without its newline counts.

    Raises:
        SourceError: the file is not there or not readable, or its compressed data is damaged
            or ends too early; the lines before the damage have been handed out by then.
    """
    file = NdjsonFile(path)
    try:
        while not file.finished:
            yield from (line for line in file.read() if not is_blank(line))
    finally:
        file.close()


class FilesSource:
    """Lines of files, read side by side.

    A record's offset is the number of lines before it, blank ones included; a blank line is no
    record. A half-written last line is a record like any other, for the decoder to judge. A
    file ends where it ends today; to follow one that grows, pipe `tail -f` into "-".

    Args:
        options: which files.
    """

    def __init__(self, options: FilesOptions) -> None:
        self._paths = options.paths
        self._waiting: deque[str] = deque()
        self._files: list[NdjsonFile] = []
        self._handover = Handover()
        self._positions: Mapping[Partition, int] = {}
        self._ends: dict[Partition, int] = {}
        self._bytes_of_ended = 0
        self._sizes: list[int | None] = []
        self._paused: frozenset[str] = frozenset()

    @property
    def paths(self) -> Sequence[str]:
        """Which files."""
        return self._paths

    @property
    def name(self) -> str:
        """The path, or how many there are."""
        return self._paths[0] if len(self._paths) == 1 else f"{len(self._paths)} files"

    @property
    def cluster(self) -> str:
        """Always "files"."""
        return "files"

    @property
    def finished(self) -> bool:
        """Whether the end of every file has been reached."""
        return len(self._ends) == len(self._paths)

    @property
    def trouble(self) -> str | None:
        """Always None: waiting mends no file."""
        return None

    @property
    def joined(self) -> bool:
        """Whether the owner has taken the files."""
        return self._handover.done

    @property
    def bytes_read(self) -> int:
        """Bytes taken from the files so far, as they lie in them (compressed)."""
        return self._bytes_of_ended + sum(file.bytes_read for file in self._files)

    @property
    def bytes_total(self) -> int | None:
        """Size of all files; None where one has no size (a pipe), or before `open`."""
        known = [size for size in self._sizes if size is not None]
        return sum(known) if known and len(known) == len(self._sizes) else None

    def open(self, owner: Owner) -> None:
        """Look at the files; the first `poll` hands them over.

        Where a file begins is the number of lines to pass over.

        Raises:
            SourceError: a file is not there, not readable, a directory, or named twice.
        """
        self.close()
        self._refuse_repeats()
        self._sizes = [size(path) for path in self._paths]
        self._handover = Handover(owner)
        self._waiting = deque(self._paths)
        self._ends = {}
        self._bytes_of_ended = 0

    def poll(self, seconds: float) -> Sequence[RecordBatch]:
        """The next block of every file that has one; a batch may hold blank lines only.

        Raises:
            SourceError: a file cannot be read, is damaged, or has fewer lines than its position.
        """
        if not self._handover.done:
            self._positions = self._handover.begin([_assignment(path) for path in self._paths])
        deadline = time.monotonic() + seconds
        while True:
            self._admit()
            remaining = max(0.0, deadline - time.monotonic())
            read = [self._batch(file) for file in self._ready(remaining)]
            batches = [batch for batch in read if batch is not None]
            if batches or self.finished or time.monotonic() >= deadline:
                return batches

    def commit(self, positions: Mapping[Partition, int]) -> str | None:
        """Nothing: nobody is to be told."""

    @property
    def ended(self) -> Collection[Partition]:
        """The files whose end has been reached."""
        return self._ends.keys()

    def pause(self, partitions: Collection[Partition]) -> None:
        """Leave these files alone until told otherwise."""
        self._paused = frozenset(each.topic for each in partitions)

    def end_offsets(self) -> Mapping[Partition, int]:
        """The number of lines of each file whose end has been reached."""
        return dict(self._ends)

    def close(self) -> None:
        """Let go of the files; may be called twice."""
        self._waiting.clear()
        while self._files:
            self._files.pop().close()

    def _refuse_repeats(self) -> None:
        for path, count in Counter(self._paths).most_common(1):
            if count > 1:
                raise SourceError(path, "is named twice", "name each file once")

    def _admit(self) -> None:
        while self._waiting and len(self._files) < _SIDE_BY_SIDE + len(self._paused):
            self._files.append(NdjsonFile(self._waiting.popleft()))

    def _ready(self, seconds: float) -> list[NdjsonFile]:
        poller = select.poll()
        reading = [file for file in self._files if file.path not in self._paused]
        for file in reading:
            poller.register(file, select.POLLIN)
        ready = {descriptor for descriptor, _ in poller.poll(seconds * 1000)}
        return [file for file in reading if file.fileno() in ready]

    def _batch(self, file: NdjsonFile) -> RecordBatch | None:
        partition = Partition(file.path, 0)
        before = file.lines_read
        read = file.read()
        if file.finished:
            self._end(file, partition)
        start = max(before, self._positions.get(partition, 0))
        lines = read[start - before :]
        return numbered(partition, lines, start) if lines else None

    def _end(self, file: NdjsonFile, partition: Partition) -> None:
        position = self._positions.get(partition, 0)
        if file.lines_read < position:
            problem = f"has only {file.lines_read} lines, but reading was to go on at {position}"
            raise SourceError(file.path, problem, "it is not the file that was read before")
        self._ends[partition] = file.lines_read
        self._bytes_of_ended += file.bytes_read
        self._files.remove(file)
        file.close()


def _assignment(path: str) -> Assignment:
    return Assignment(
        partition=Partition(path, 0), identity=identity(path), begin=0, end=NO_END, start=0
    )
