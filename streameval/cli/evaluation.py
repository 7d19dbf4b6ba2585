"""The work of `streameval evaluate`: files through the pipeline of the daemon, once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import cast

import msgspec
from typer import Exit

from streameval.accumulator import Accumulator
from streameval.catalogue import parse
from streameval.cli.ending import FAILED, WrongCallError, tell, wrong_call_where
from streameval.cli.file_reading import read_all
from streameval.cli.file_streams import beginning, of_files
from streameval.cli.over_time import OverTime
from streameval.cli.readings import Taken, write_series
from streameval.config import Config, WebOptions, load
from streameval.config.checks import checked
from streameval.config.counting import counting as new_counting
from streameval.config.durations import DurationError, microseconds
from streameval.errors import SourceError
from streameval.pipeline.circumstances import Circumstances
from streameval.pipeline.fields import TimeUnit
from streameval.pipeline.ingest import Ingest
from streameval.pipeline.labels import MISSING_LABEL
from streameval.pipeline.snapshot import Snapshot
from streameval.pipeline.snapshots import Snapshots
from streameval.sources.files import FilesSource
from streameval.sources.options import FilesOptions

_NO_CAP = 2**62
"""More label values than there can be."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What the caller wants to know.

    Attributes:
        metrics: in place of the configuration's, if any.
        labels: likewise.
        config: path of a configuration.
        catalog: number of items, or a file of their ids; in place of the configuration's.
        every: length of a span of event time, for readings of one after the other.
        time: field of event time; in place of the configuration's.
        time_unit: how it is written; likewise.
    """

    metrics: Sequence[str]
    labels: Sequence[str]
    config: str | None
    catalog: str | None
    every: str | None = None
    time: str | None = None
    time_unit: TimeUnit | None = None


def evaluated(paths: Sequence[str], asked: Asked, written_as: str) -> None:
    """Evaluate the files and write the readings.

    Raises:
        WrongCallError: no metric is asked for, or a file cannot be read.
        ConfigError: what is asked for does not fit together.
        MetricError: a metric cannot be understood.
        SourceError: a file is damaged.
    """
    files = FilesOptions(paths=list(paths))
    config = configured(files, asked)
    every = _every(config, asked)
    counting = new_counting(config) if every is None else OverTime(config, every)
    source = FilesSource(cast("FilesOptions", config.source))
    with wrong_call_where(SourceError):
        source.open(beginning(config, counting))
    read_all(source, counting)
    taken = list(counting.taken()) if isinstance(counting, OverTime) else _whole(counting, config)
    for trouble in dict.fromkeys(each.snapshot.health.trouble for each in taken):
        if trouble is not None:
            tell(trouble)
    _tell_of_absent_labels([each.snapshot for each in taken])
    write_series(taken, written_as)
    if not counting.tally.valid:
        tell(f"no valid event in {', '.join(source.paths)}.")
        raise Exit(FAILED)


def _whole(ingest: Ingest[Accumulator], config: Config) -> list[Taken]:
    snapshots = Snapshots(ingest, source="", labels=config.labels, started_at=0.0)
    return [Taken(None, snapshots.take(time.time(), Circumstances(ready=True)))]


def _every(config: Config, asked: Asked) -> int | None:
    """The length of a span, microseconds; None where everything is read as one."""
    if asked.every is None:
        return None
    try:
        every = microseconds(asked.every)
    except DurationError as error:
        raise WrongCallError(f"--every: {error}") from None
    if not every:
        raise WrongCallError(f"--every: found {asked.every!r}; give at least 1s.")
    if config.event.time is None:
        raise WrongCallError(
            "--every needs event time: name its field and unit with --time and --time-unit, or as "
            "time and time_unit under [event] in --config FILE."
        )
    return every


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
    base = _uncapped(files) if asked.config is None else _of_a_daemon(load(asked.config), files)
    return checked("command line", _changed(base, asked))


def _of_a_daemon(config: Config, files: FilesOptions) -> Config:
    """What it counts, without what only matters where it runs."""
    alone = msgspec.structs.replace(config, state=None, dead_letters=None, web=WebOptions())
    return of_files(alone, files.paths)


def _uncapped(files: FilesOptions) -> Config:
    """Who names labels by hand, for files that end, wants to see all of their values."""
    return Config(metrics=["ctr"], source=files, label_cap=_NO_CAP, max_series=_NO_CAP)


def _changed(config: Config, asked: Asked) -> Config:
    change = msgspec.structs.replace
    if asked.metrics:
        config = change(config, metrics=list(dict.fromkeys(asked.metrics)), metric=[])
    if asked.labels:
        config = _relabelled(config, asked.labels)
    if asked.catalog is not None:
        catalog = int(asked.catalog) if asked.catalog.isdecimal() else asked.catalog
        config = change(config, catalog=catalog)
    if asked.time is not None or asked.time_unit is not None:
        event = config.event
        time_, unit = asked.time or event.time, asked.time_unit or event.time_unit
        config = change(config, event=change(event, time=time_, time_unit=unit))
    return config


def _relabelled(config: Config, labels: Sequence[str]) -> Config:
    """The same by other labels: what was said of those that are gone is gone with them."""
    change = msgspec.structs.replace
    segments = [name for name in config.segments if name not in labels]
    known = {*labels, *segments}
    tables = [
        change(each, labels=each.labels and [name for name in each.labels if name in labels])
        for each in config.metric
    ]
    mapped = {name: path for name, path in config.event.labels.items() if name in known}
    values = {name: found for name, found in config.label_values.items() if name in known}
    return change(
        config,
        labels=list(labels),
        segments=segments,
        metric=[
            change(each, segments=each.segments and [x for x in each.segments if x in segments])
            for each in tables
        ],
        label_values=values,
        event=change(config.event, labels=mapped),
    )


def _tell_of_absent_labels(snapshots: Sequence[Snapshot]) -> None:
    values: dict[str, set[str]] = {}
    for snapshot in snapshots:
        for entry in snapshot.series:
            names = snapshot.families[entry.family].label_names
            for name, value in zip(names, entry.labels, strict=True):
                values.setdefault(name, set()).add(value)
    for name, found in values.items():
        if found == {MISSING_LABEL}:
            tell(f"no event has the label {name!r}; --by or [event.labels] names its field.")
