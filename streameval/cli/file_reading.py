"""Reading files to their end, with a bar, and telling what in them was no event."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

from streameval.cli.ending import tell
from streameval.cli.screen import progress_console
from streameval.pipeline.examples import InvalidRecord
from streameval.pipeline.tally import Tally
from streameval.records import Partition, RecordBatch
from streameval.sources.files import FilesSource

_SECONDS = 0.2


class Counting(Protocol):
    """What counts the records of files."""

    tally: Tally

    def apply(self, batch: RecordBatch) -> Tally:
        """Count the records of a batch; returns what became of them."""

    def end(self, partitions: Collection[Partition]) -> None:
        """Nothing more comes in these files."""

    @property
    def crowded(self) -> Collection[Partition]:
        """Files of which no more should be read now."""

    def take_invalid(self) -> Sequence[InvalidRecord]:
        """Examples of invalid records since the last call."""


def read_all(source: FilesSource, counting: Counting) -> None:
    """Count all records of the files, and tell of those that are no event."""
    console = progress_console()
    columns = (BarColumn(), DownloadColumn(), TimeRemainingColumn())
    found: dict[str, InvalidRecord] = {}
    with Progress(*columns, console=console, disable=console is None, transient=True) as progress:
        task = progress.add_task("", total=source.bytes_total)
        while not source.finished:
            for batch in source.poll(_SECONDS):
                counting.apply(batch)
            counting.end(source.ended)
            source.pause(counting.crowded)
            for record in counting.take_invalid():
                found.setdefault(record.reason, record)
            progress.update(task, completed=source.bytes_read)
    _tell_of_invalid(counting.tally, list(found.values()))


def _tell_of_invalid(tally: Tally, examples: Sequence[InvalidRecord]) -> None:
    bad = sum(tally.invalid.values())
    if bad:
        tell(f"{bad:,} of {tally.consumed:,} records are invalid and left out:")
    for record in examples:
        line = f"{record.partition.topic}, line {record.offset + 1}"
        count = tally.invalid[record.reason]
        tell(f"{count:>9,} {record.reason}, first in {line}: {record.detail}: {record.preview}")
