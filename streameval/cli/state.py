"""`streameval state`: shows, verifies, exports and merges stores of checkpoints."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, combinations
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import msgspec
import typer
from typer import Argument, Exit, Option

from streameval.checkpoints.format import ROUNDS, VERSION, CheckpointDraft, Entry, Part, Shard
from streameval.checkpoints.settings import is_url
from streameval.checkpoints.store import Listing, Store, is_store, store_of
from streameval.config.states import (
    StoredCheckpoint,
    newest_checkpoints,
    restore,
    store_at,
    without_copies,
)
from streameval.engine.capture import ingest_snapshot
from streameval.engine.dedup import SEEN_PREFIX as SEEN
from streameval.engine.partition import META, backfills_in
from streameval.engine.windows.times import SECOND, moment_text
from streameval.evaluation.arguments import as_usage_error
from streameval.evaluation.partials import backfill as from_rows
from streameval.evaluation.partials import stored
from streameval.evaluation.shell.exits import FAILED, output, report
from streameval.evaluation.shell.flags import OutputFile, OutputFormat, TextFormat
from streameval.evaluation.shell.reading_tables import write_series
from streameval.evaluation.shell.terminal import Forms, draw_text, quantity
from streameval.evaluation.span_readings import SpanReadings
from streameval.events.errors import (
    DamagedStateError,
    SourceError,
    StateVersionError,
    UnlikeStateError,
    UsageError,
)
from streameval.exporters.view import span
from streameval.inference.text_table import TextColumn, TextTable
from streameval.join.state import JOIN_PREFIX as JOIN

_HELP: Final = """Inspect, verify, export and merge stores of checkpoints ([state] path).

```
streameval state show state
streameval state verify s3://bucket/prefix
```
"""

state = typer.Typer(help=_HELP, rich_markup_mode="markdown")

Paths: TypeAlias = Annotated[
    list[str],
    Argument(metavar="PATH...", help="Folders or URLs of buckets, as [state] path names them."),
]


@state.command()
def show(
    paths: Paths,
    *,
    format: TextFormat = "table",  # noqa: A002  the option is called --format
    output: OutputFile = None,
) -> None:
    """Show the newest valid checkpoint of each partition.

    ```
    streameval state show state
    streameval state show state --format json
    ```
    """
    stores = [_store(store_at(path)) for path in paths]
    Forms(lambda: chain.from_iterable(map(_parts, stores)), lambda: stores).write(format, output)
    faults = dict.fromkeys(
        fault
        for store in stores
        for faults in (store["faults"], *(shard["faults"] for shard in store["places"]))
        for fault in faults
    )
    for fault in faults:
        report(fault)
    if faults:
        raise Exit(FAILED)


@state.command()
def verify(paths: Paths) -> None:
    """Check every byte of every checkpoint; print each fault and exit with status 1.

    A store without a checkpoint is also a fault.

    ```
    streameval state verify state
    ```
    """
    faults = 0
    for store in map(store_at, paths):
        store.identity()
        listing = store.listing()
        checked = list(_faults(store, listing))
        damaged = [fault for fault in checked if fault is not None]
        directories = [fault.problem for fault in listing.faults]
        problems = [*damaged, *directories]
        if not checked and not problems:
            problems = [f"{store.path}: no checkpoint in {ROUNDS}, so there is nothing to resume."]
        for problem in problems:
            report(problem)
        faults += len(problems)
        with output():
            verdict = "all valid" if checked else "nothing to check"
            if damaged:
                verdict = f"{len(damaged):,} not valid"
            if directories:
                verdict += f"; {quantity(len(directories), 'round')} with a damaged directory"
            partitions = quantity(len(listing.shards), "partition")
            of = f"{quantity(len(checked), 'checkpoint')} of {partitions}"
            sys.stdout.write(draw_text(f"{store.path}: {of}, {verdict}"))
    if faults:
        raise Exit(FAILED)


@state.command()
def export(
    paths: Paths,
    *,
    partition: Annotated[
        list[str] | None,
        Option(metavar="TOPIC/NUMBER", help="Only this partition; may be repeated."),
    ] = None,
    config: Annotated[
        Path | None,
        Option(metavar="CONFIG", help="Configuration to use instead of the saved one."),
    ] = None,
    format: OutputFormat = "json",  # noqa: A002  the option is called --format
    output: OutputFile = None,
) -> None:
    """Print the values of all states merged: every window and the lifetime.

    The command only reads checkpoints, so a daemon may be using the store. Use --config to choose
    other metrics, or for files that have moved. A partition in several stores, such as a backup,
    counts once.

    ```
    streameval state export state
    streameval state export eu/state us/state --format table
    ```
    """
    checkpoints = without_copies(newest_checkpoints(paths, report, partition or ()), report)
    if not checkpoints:
        raise UsageError(f"no state in {', '.join(paths)}.")
    settings, ingest = restore(checkpoints, config, report)
    snapshot = ingest_snapshot(ingest, labels=settings.series_labels(), now=time.time())
    write_series([SpanReadings(None, snapshot)], format, to=output)


@state.command()
def merge(
    paths: Paths,
    *,
    into: Annotated[
        str, Option(metavar="PATH", help="New folder, or URL of a bucket without state.")
    ],
    backfill: Annotated[
        list[Path] | None,
        Option(
            metavar="PARQUET",
            help="Rows of streameval.partials to add; may be repeated.",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        Option(metavar="CONFIG", help="Configuration to use with --backfill."),
    ] = None,
) -> None:
    """Merge stores of one group into a new one; the highest offset of each partition wins.

    Use it to move replicas with separate disks to a shared folder, to move state between a folder
    and a bucket, and to add counts from before the log (--backfill).

    ```
    streameval state merge node-1/state node-2/state --into shared/state
    streameval state merge state --into s3://bucket/prefix
    streameval state merge state --backfill may.parquet --into state-with-may
    ```
    """
    if is_store(into) or (not is_url(into) and Path(into).exists()):
        raise UsageError(f"--into {into}: exists already; give a path that does not.")
    checkpoints = without_copies(newest_checkpoints(paths, report), None)
    checkpoints.sort(key=lambda checkpoint: checkpoint.shard)
    cluster, group = _cluster_and_group(checkpoints, paths)
    _check_backfills(checkpoints)
    drafts = {checkpoint.shard: checkpoint.saved.draft for checkpoint in checkpoints}
    lines: list[str] = []
    if backfill:
        # A checkpoint without a clock is older than all others.
        latest = max(
            checkpoints,
            key=lambda checkpoint: (
                checkpoint.saved.header.clock is not None,
                checkpoint.saved.header.clock or 0,
            ),
        )
        parts, lines = _with_backfills(checkpoints, checkpoints.index(latest), backfill, config)
        drafts[latest.shard] = CheckpointDraft(header=latest.saved.header, parts=parts)
    store = store_of(into)
    store.claim(cluster, group)
    store.save([*drafts.values()])
    with output():
        merged = (
            f"{checkpoint.shard}: offset {checkpoint.saved.header.offset:,}, from {checkpoint.path}"
            for checkpoint in checkpoints
        )
        sys.stdout.write(draw_text(*merged, *lines))


def _store(store: Store) -> dict[str, Any]:
    store_identity, listing = store.identity(), store.listing()
    return {
        "path": store.path,
        "cluster": store_identity.cluster,
        "group": store_identity.group,
        "faults": [fault.problem for fault in listing.faults],
        "places": [_shard(store, shard, listing) for shard in listing.shards],
    }


def _shard(store: Store, shard: Shard, listing: Listing) -> dict[str, Any]:
    about = {
        "topic": shard.topic,
        "identity": shard.identity,
        "partition": shard.number,
        "kept": sorted(location.offset for location in listing.shards[shard]),
    }
    try:
        newest = store.newest(shard, listing)
    except StateVersionError as error:
        return {**about, "checkpoint": None, "faults": [str(error)]}
    saved, checkpoint = newest.saved, None
    if saved is not None:
        own = msgspec.to_builtins(saved.header)
        shared = own.pop("state")
        checkpoint = {
            "path": saved.path,
            **own,
            "version": VERSION,
            **shared,
            "age_seconds": round(time.time() - saved.header.written_at, 3),
            "bytes": sum(entry.size for entry in saved.entries),
            "parts": [
                {
                    "name": entry.name,
                    "bytes": entry.size,
                    "digest": entry.digest,
                    "file": entry.key,
                }
                for entry in saved.entries
            ],
        }
    return {**about, "checkpoint": checkpoint, "faults": list(newest.damaged)}


def _parts(store: Mapping[str, Any]) -> Iterator[str | TextTable[Mapping[str, Any]]]:
    title = f"{store['path']}: cluster {store['cluster']}, group {store['group']}"
    yield TextTable(_COLUMNS, store["places"], title)
    # Shards differ in settings only while these change, so each setting is listed once.
    settings = {
        (key, json.dumps(value))
        for shard in store["places"]
        for key, value in (shard["checkpoint"] or {"settings": {}})["settings"].items()
    }
    if settings:
        yield from ("settings", *(f"  {name} = {value}" for name, value in sorted(settings)))


def _checkpoint_text(
    text: Callable[[Any], str], missing: str = ""
) -> Callable[[Mapping[str, Any]], str]:
    """The text of a cell about a checkpoint; `missing` where none is valid."""
    return lambda shard: missing if shard["checkpoint"] is None else text(shard["checkpoint"])


def _rebuilt_to(saved: Mapping[str, Any]) -> str:
    """Offsets to which the state is rebuilt before counters begin; "" where they have begun."""
    return ", ".join(f"{log} {offset:,}" for log, offset in sorted(saved["counted"].items()))


def _truncate_to_second(micros: float | None) -> str:
    return "none" if micros is None else moment_text(int(micros) // SECOND * SECOND)


_Column: TypeAlias = TextColumn[Mapping[str, Any]]

_COLUMNS: Final[Sequence[_Column]] = (
    _Column("partition", lambda shard: f"{shard['topic']}[{shard['partition']}]"),
    _Column(
        "offset", _checkpoint_text(lambda saved: f"{saved['offset']:,}", "none valid"), "right"
    ),
    _Column("rebuilt to", _checkpoint_text(_rebuilt_to)),
    _Column("clock", _checkpoint_text(lambda saved: _truncate_to_second(saved["clock"]))),
    _Column(
        "written", _checkpoint_text(lambda saved: _truncate_to_second(saved["written_at"] * SECOND))
    ),
    _Column("age", _checkpoint_text(lambda saved: span(saved["age_seconds"])), "right"),
    _Column("bytes", _checkpoint_text(lambda saved: f"{saved['bytes']:,}"), "right"),
    _Column("parts", _checkpoint_text(lambda saved: f"{len(saved['parts']):,}"), "right"),
    _Column("kept", lambda shard: f"{len(shard['kept']):,}", "right"),
)


def _faults(store: Store, listing: Listing) -> Iterator[str | None]:
    """The fault of each checkpoint, or None."""
    for shard, locations in listing.shards.items():
        seen: set[Entry] = set()
        for location in reversed(locations):
            try:
                # Parts that other checkpoints have, too, are read once.
                seen.update(store.read(location, lambda entry: entry not in seen).entries)  # noqa: B023  called here
                yield None
            except StateVersionError as error:
                yield str(error)
            except (DamagedStateError, FileNotFoundError) as error:
                # A running daemon may have removed the checkpoint.
                if location in store.listing().shards.get(shard, ()):
                    yield str(error)


def _with_backfills(
    checkpoints: Sequence[StoredCheckpoint],
    target: int,
    paths: Sequence[Path],
    config_path: Path | None,
) -> tuple[list[Part], list[str]]:
    """The parts of the target's state with backfills added, and a line about each backfill.

    Windows and lifetime are sums over all partitions, so one partition can take every backfill.
    """
    config, ingest = restore(checkpoints, config_path, _refuse)
    # Partitions are in the order in which they were restored.
    partition, shard = list(ingest.partitions)[target], checkpoints[target].shard
    lines = []
    for path in paths:
        with as_usage_error(SourceError, UnlikeStateError):
            added = from_rows(stored(path), config.series_dimensions())
            ingest.merge(partition, added)
        lists = sum(row.lists for row in added.rows)
        lines.append(f"{path}: {lists:,} lists of {added.extent}, with {shard}")
    parts = {
        section.name: Part(name=section.name, content=section.content())
        for section in ingest.sections(partition)
    }
    # What only a process that goes on counting needs was not read, and stays.
    saved = checkpoints[target].saved.draft.parts
    unread = (part for part in saved if part.name.startswith((SEEN, JOIN)))
    parts = {part.name: part for part in unread} | parts
    return [parts[name] for name in sorted(parts)], lines


def _refuse(left_out: str) -> None:
    """Raise a UsageError: what is not read would be missing from the merged state."""
    raise UsageError(left_out)


def _check_backfills(checkpoints: Sequence[StoredCheckpoint]) -> None:
    """Raise a UsageError if a backfill would be counted twice."""
    merged = [
        (checkpoint, extent)
        for checkpoint in checkpoints
        for extent in backfills_in(checkpoint.saved.read(META))
    ]
    for (first, extent), (other, again) in combinations(merged, 2):
        if first.shard != other.shard and extent.overlaps(again):
            raise UsageError(
                f"{first.path} has a backfill of {extent}, and {other.path} one of {again}: "
                "lists in both would count twice. Merge copies of the stores from before one "
                "of the backfills."
            )


def _cluster_and_group(
    checkpoints: Sequence[StoredCheckpoint], paths: Sequence[str]
) -> tuple[str, str]:
    if not checkpoints:
        raise UsageError(f"no state in {', '.join(paths)}.")
    groups = sorted(
        {
            (checkpoint.saved.header.state.cluster, checkpoint.saved.header.state.group)
            for checkpoint in checkpoints
        }
    )
    if len(groups) > 1:
        names = " and ".join(f"group {group!r} of cluster {cluster!r}" for cluster, group in groups)
        raise UsageError(
            f"the stores belong to {names}; their offsets cannot be compared. To read their "
            "values together, use `streameval state export` with all of them."
        )
    return groups[0]
