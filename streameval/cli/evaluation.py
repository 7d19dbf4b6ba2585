"""The work of `streameval evaluate`: files through the pipeline of the daemon, once."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec
from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn
from typer import Exit

from streameval.accumulator import Accumulator
from streameval.catalogue import parse
from streameval.cli.ending import FAILED, WrongCallError, tell, wrong_call_where
from streameval.cli.readings import write_readings
from streameval.cli.screen import progress_console
from streameval.config import Config, load
from streameval.config.checks import checked
from streameval.config.counting import counting
from streameval.errors import SourceError
from streameval.pipeline.circumstances import Circumstances
from streameval.pipeline.examples import InvalidRecord
from streameval.pipeline.ingest import Ingest
from streameval.pipeline.labels import MISSING_LABEL
from streameval.pipeline.snapshot import Snapshot
from streameval.pipeline.snapshots import Snapshots
from streameval.sources.files import FilesSource
from streameval.sources.options import FilesOptions
from streameval.sources.owning import Positions

_SECONDS = 0.2


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What the caller wants to know.

    Attributes:
        metrics: in place of the configuration's, if any.
        labels: likewise.
        config: path of a configuration.
        catalog: number of items, or a file of their ids; in place of the configuration's.
    """

    metrics: Sequence[str]
    labels: Sequence[str]
    config: str | None
    catalog: str | None


def evaluated(paths: Sequence[str], asked: Asked, written_as: str) -> None:
    """Evaluate the files and write the readings.

    Raises:
        WrongCallError: no metric is asked for, or a file cannot be read.
        ConfigError: what is asked for does not fit together.
        MetricError: a metric cannot be understood.
        SourceError: a file is damaged.
    """
    files = FilesOptions(paths=list(paths))
    config, source = configured(files, asked), FilesSource(files)
    ingest = counting(config)
    with wrong_call_where(SourceError):
        source.open(Positions())
    _tell_of_invalid(ingest, _read(source, ingest))
    snapshots = Snapshots(ingest, source="", labels=config.labels, started_at=0.0)
    snapshot = snapshots.take(time.time(), Circumstances(ready=True))
    if snapshot.health.trouble is not None:
        tell(snapshot.health.trouble)
    _tell_of_absent_labels(snapshot)
    write_readings(snapshot, written_as)
    if not ingest.tally.valid:
        tell(f"no valid event in {', '.join(paths)}.")
        raise Exit(FAILED)


def configured(files: FilesOptions, asked: Asked) -> Config:
    """The configuration that the caller means.

    Raises:
        WrongCallError: no metric is asked for.
        ConfigError: what is asked for does not fit together.
        MetricError: a metric cannot be understood.
    """
    if asked.config is None and not asked.metrics:
        raise WrongCallError(
            "no metric asked for; give some, for example -m ctr -m ndcg@10 (`streameval metrics` "
            "lists them all), or --config FILE."
        )
    for text in asked.metrics:
        parse(text)
    base = Config(metrics=["ctr"], source=files) if asked.config is None else load(asked.config)
    return checked("command line", _changed(msgspec.structs.replace(base, source=files), asked))


def _changed(config: Config, asked: Asked) -> Config:
    if asked.metrics:
        config = msgspec.structs.replace(config, metrics=list(dict.fromkeys(asked.metrics)))
    if asked.labels:
        mapped = {name: path for name, path in config.event.labels.items() if name in asked.labels}
        event = msgspec.structs.replace(config.event, labels=mapped)
        config = msgspec.structs.replace(config, labels=list(asked.labels), event=event)
    if asked.catalog is not None:
        catalog = int(asked.catalog) if asked.catalog.isdecimal() else asked.catalog
        config = msgspec.structs.replace(config, catalog=catalog)
    return config


def _read(source: FilesSource, ingest: Ingest[Accumulator]) -> Sequence[InvalidRecord]:
    console = progress_console()
    columns = (BarColumn(), DownloadColumn(), TimeRemainingColumn())
    found: dict[str, InvalidRecord] = {}
    with Progress(*columns, console=console, disable=console is None, transient=True) as progress:
        task = progress.add_task("", total=source.bytes_total)
        while not source.finished:
            for batch in source.poll(_SECONDS):
                ingest.apply(batch)
            for record in ingest.take_invalid():
                found.setdefault(record.reason, record)
            progress.update(task, completed=source.bytes_read)
    return list(found.values())


def _tell_of_absent_labels(snapshot: Snapshot) -> None:
    for index, name in enumerate(snapshot.label_names):
        if {series.labels[index] for series in snapshot.series} == {MISSING_LABEL}:
            tell(f"no event has the label {name!r}; --by or [event.labels] names its field.")


def _tell_of_invalid(ingest: Ingest[Accumulator], examples: Sequence[InvalidRecord]) -> None:
    tally = ingest.tally
    bad = sum(tally.invalid.values())
    if bad:
        tell(f"{bad:,} of {tally.consumed:,} records are invalid and left out:")
    for record in examples:
        line = f"{record.partition.topic}, line {record.offset + 1}"
        count = tally.invalid[record.reason]
        tell(f"{count:>9,} {record.reason}, first in {line}: {record.detail}: {record.preview}")
