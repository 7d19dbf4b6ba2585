"""The values of partial results that engines wrote into a folder or bucket."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

import numpy as np

from streameval.accumulator.reading_intervals import interval_method
from streameval.accumulator.readings import readings_of
from streameval.catalogue import parse
from streameval.checkpoints.format import StoreIdentity
from streameval.config import Config
from streameval.config.config import without_formats
from streameval.config.pipeline import new_ingest
from streameval.engine.analysis import UnreadPartitions
from streameval.engine.ingest import IngestCopy
from streameval.engine.partition import Tally
from streameval.engine.snapshot import LIFETIME, Series, SeriesFamily, StoredPartition
from streameval.evaluation.files import arrow
from streameval.evaluation.partials import (
    Partial,
    backfill,
    every_of,
    labels_of,
    merged,
    rows_of_file,
    stored,
)
from streameval.evaluation.span_readings import SpanReadings, snapshot_of
from streameval.events.errors import SourceError, StreamevalError, UsageError
from streameval.events.records import Partition
from streameval.sources.partial_files import PartialFile, partial_files, sample_file
from streameval.sources.remote import is_remote, object_reader
from streameval.statistics.intervals import IntervalKind


class PartialsReader:
    """Reads the rows of each file once, as the counts of a partition of its own.

    A file that is written again replaces its rows, and one that is removed, or superseded by a
    complete run, takes them away. So any mix of files has the values of their lists together.

    Args:
        path: folder, or URL of a folder in a bucket.
        config: what is shown. The rows must have its metrics, split by its labels and segments, and
            be of spans that fit into its panes where it has windows.

    Attributes:
        config: the configuration of the caller.
        ingest: the counts.
        problem: why the folder cannot be listed, in a sentence; None if it was.
    """

    def __init__(self, path: str, config: Config) -> None:
        self.config = config
        self.problem: str | None = None
        self.store_identity: StoreIdentity | None = None
        self.ingest = new_ingest(without_formats(config))
        self._path = path
        self._files: dict[str, PartialFile] = {}
        self._lists: dict[str, int] = {}
        self._problems: dict[str, str] = {}

    def refresh(self) -> None:
        """Read what has changed; what cannot be read has no values, and says so."""
        try:
            files = partial_files(self._path)
        except StreamevalError as error:
            self.problem = str(error)
            return
        self.problem = None
        for name in self._files.keys() - files.keys():
            del self._files[name]
            self._drop(name)
        for name, file in files.items():
            if self._files.get(name) != file:
                self._drop(name)
                self._files[name] = file
                try:
                    self._lists[name] = self._load(name, file)
                except StreamevalError as error:
                    self._drop(name)
                    self._problems[name] = str(error).rstrip(".")

    def copied(self) -> IngestCopy:
        """The counts, as one process has them that has counted all lists."""
        tally = Tally(consumed=sum(self._lists.values()), valid=sum(self._lists.values()))
        return self.ingest.copied()._replace(tally=tally)

    def stored(self, ends: Mapping[Partition, int]) -> tuple[StoredPartition, ...]:
        """Each file, by name; its offset is the number of its lists. `ends`: not used."""
        del ends
        return tuple(
            StoredPartition(
                topic=name,
                partition=0,
                offset=self._lists.get(name),
                written_at=file.modified,
                problem=self._problems.get(name),
            )
            for name, file in sorted(self._files.items())
        )

    @staticmethod
    def unread(stored: Sequence[StoredPartition]) -> UnreadPartitions:
        """The files without values."""
        missing = [entry for entry in stored if entry.offset is None]
        if not missing:
            return UnreadPartitions()
        return UnreadPartitions(len(missing), f"{missing[0].topic}: {missing[0].problem}")

    def _load(self, name: str, file: PartialFile) -> int:
        """Count the rows of a file; returns the number of their lists."""
        added = backfill(rows_of_file(file.path), self.config.series_dimensions())
        partition = Partition(name, 0)
        self.ingest.begin(partition, {partition: 0})
        state = self.ingest.partitions[partition]
        state.merge(added)
        if (end := added.extent.end) is not None:
            # Without a log, the newest span says how far the counts are.
            state.time.now = end - 1
        return sum(row.lists for row in added.rows)

    def _drop(self, name: str) -> None:
        self._lists.pop(name, None)
        self._problems.pop(name, None)
        self.ingest.drop(Partition(name, 0))


def has_partials(path: str) -> bool:
    """True if a parquet file, or one of those below a folder or URL, has rows of partials."""
    with suppress(SourceError):
        sample = sample_file(path)
        if sample is None:
            return False
        with suppress(OSError, ValueError, arrow().ArrowException):
            source = object_reader(sample) if is_remote(sample) else sample
            with arrow("parquet").ParquetFile(source) as file:
                return {*Partial._fields} <= {*file.schema_arrow.names}
    return False


def spans_of(path: str, metrics: Sequence[str]) -> list[SpanReadings]:
    """The readings of all rows below a path, in time order.

    `metrics`: those to read; empty for all that were counted.

    Raises the errors of `merged` and `stored`, and UsageError for a metric that was not counted.
    """
    rows = [*stored(path)]
    names = labels_of(rows)
    spans: dict[int | None, list[Series]] = {}
    for cell, counted in merged(rows).items():
        by_text = {metric.text: metric for metric in counted.metrics}
        texts = [parse(text).text for text in metrics]
        for text in texts:
            if text not in by_text:
                raise UsageError(f"-m {text}: not in {path}, which has {', '.join(by_text)}.")
        selected = [by_text[text] for text in texts] or [*counted.metrics]
        kind: IntervalKind = "anytime" if cell.start is None else "pointwise"
        method = interval_method(counted.intervals, kind)
        for metric in selected:
            (reading,) = readings_of(metric, counted.table, np.zeros(1, np.int64), method)
            series = Series(metric, cell.labels, reading, LIFETIME, 0)
            spans.setdefault(cell.start, []).append(series)
    families = [SeriesFamily("labels", None, names)]
    every = every_of(rows)
    return [
        SpanReadings(
            start, snapshot_of(families, sorted(series, key=lambda of: of.metric.text)), every
        )
        for start, series in spans.items()
    ]
