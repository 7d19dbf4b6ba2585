"""Saved states: the newest checkpoints of stores, and one ingest restored from all of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from streameval.checkpoints.format import IDENTITY_FILE, Header, Shard
from streameval.checkpoints.restore import other_settings, resume
from streameval.checkpoints.settings import is_url, scheme_of
from streameval.checkpoints.store import SavedCheckpoint, Store, is_store, store_of
from streameval.config import Config, load
from streameval.config.config import absent_metrics, from_schema
from streameval.config.pipeline import new_ingest, with_saved_depth
from streameval.engine.ingest import Ingest
from streameval.engine.partition import META, backfills_in
from streameval.engine.stored_states import StoredStates
from streameval.events.errors import UsageError
from streameval.events.records import Partition
from streameval.events.saved_states import damage_as_error
from streameval.sources.remote import is_remote
from streameval.sources.settings import STDIN

T = TypeVar("T")


class StoredCheckpoint(NamedTuple):
    """A checkpoint and the path of its store."""

    path: str
    shard: Shard
    saved: SavedCheckpoint


def newest_checkpoints(
    paths: Sequence[str], note: Callable[[str], None], partitions: Sequence[str] = ()
) -> list[StoredCheckpoint]:
    """The newest valid checkpoint of every shard; `note` takes each damaged one.

    For a topic that was deleted and recreated, only the state written last.

    `partitions`: TOPIC/NUMBER; empty for all.
    """
    checkpoints = list(_checkpoints_in(paths, note))
    identities = newest_identities(
        (
            (checkpoint.path, checkpoint.shard.topic),
            checkpoint.shard.identity,
            checkpoint.saved.header.written_at,
        )
        for checkpoint in checkpoints
    )
    newest = [
        checkpoint
        for checkpoint in checkpoints
        if identities[checkpoint.path, checkpoint.shard.topic] == checkpoint.shard.identity
    ]
    newest.sort(key=lambda checkpoint: checkpoint[:2])
    names = {f"{checkpoint.shard.topic}/{checkpoint.shard.number}" for checkpoint in newest}
    for name in partitions:
        if name not in names:
            available = ", ".join(sorted(names)) or "none"
            raise UsageError(f"--partition {name!r}: not in the stores, which have {available}.")
    selected = set(partitions) or names
    return [
        checkpoint
        for checkpoint in newest
        if f"{checkpoint.shard.topic}/{checkpoint.shard.number}" in selected
    ]


def newest_identities(written: Iterable[tuple[T, str, float]]) -> dict[T, str]:
    """The identity of each topic that was written last: it may have been deleted and created again.

    `written`: topic, identity, and when a checkpoint of them was written.
    """
    latest: dict[T, tuple[float, str]] = {}
    for topic, identity, at in written:
        latest[topic] = max(latest.get(topic, (at, identity)), (at, identity))
    return {topic: identity for topic, (_, identity) in latest.items()}


def without_copies(
    checkpoints: Sequence[StoredCheckpoint], note: Callable[[str], None] | None
) -> list[StoredCheckpoint]:
    """The checkpoints, and of several with records of one log only that with the highest offset.

    `note`: takes a line about copies; None to merge stores, where copies are usual.

    Raises:
        UsageError: one that would be left out has a backfill that the other lacks.
    """
    best: dict[tuple[str, Shard], StoredCheckpoint] = {}
    copies: Counter[tuple[str, str]] = Counter()
    for checkpoint in checkpoints:
        key = checkpoint.saved.header.state.cluster, checkpoint.shard
        best_so_far = best.setdefault(key, checkpoint)
        if best_so_far is checkpoint:
            continue
        # A state that has started over wins, whatever offset it has.
        heights = [
            (candidate.saved.header.generation, candidate.saved.header.offset)
            for candidate in (best_so_far, checkpoint)
        ]
        further = heights[0] < heights[1]
        longer, other = (checkpoint, best_so_far) if further else (best_so_far, checkpoint)
        extents = [backfills_in(copy.saved.read(META)) for copy in (longer, other)]
        remedy = "Give only one of them."
        if note is None:
            remedy = f"Merge without {other.path}, and give the backfill again with --backfill."
        for extent in extents[1]:
            if extent not in extents[0]:
                raise UsageError(
                    f"{other.path} has a backfill of {extent} with {other.shard}; {longer.path} "
                    f"lacks it, but has read the same log as far or further. {remedy}"
                )
        best[key] = longer
        copies[other.path, longer.path] += 1
    for (path, longer_path), count in copies.items():
        partitions = f"{count:,} partition{'s' * (count != 1)}"
        if note is not None:
            note(f"{path}: {partitions} left out, as {longer_path} has counted the same records.")
    return [*best.values()]


def restore(
    checkpoints: Sequence[StoredCheckpoint],
    config_path: Path | None,
    note: Callable[[str], None],
) -> tuple[Config, Ingest]:
    """The configuration of the checkpoints, and one ingest restored from all of them.

    Args:
        checkpoints: at least one.
        config_path: a configuration to use instead of the saved one.
        note: takes a line about each module of one's own metrics that a state names, whose metrics
            are left out: data does not decide which code runs.

    Raises:
        UsageError: the counts of a checkpoint mean something else under the configuration, or
            there is no metric to read.
        DamagedStateError: its schema, settings or content is not what this program writes.
    """
    newest = max(checkpoints, key=lambda checkpoint_read: checkpoint_read.saved.header.written_at)
    # Schema and settings have the right types, and may have any values.
    with damage_as_error(newest.path):
        config = load(config_path) if config_path else _saved_config(newest, note)
        config = with_saved_depth(config, newest.saved.header.state.settings)
        for checkpoint in checkpoints:
            _check_settings(config, checkpoint, newest.path if config_path is None else None)
        ingest = new_ingest(config)
        states = StoredStates(ingest.layout)
        for number, checkpoint in enumerate(checkpoints):
            # Stores of different clusters may have partitions of the same name.
            partition = Partition(f"{number}:{checkpoint.shard.topic}", checkpoint.shard.number)
            resume(ingest, partition, checkpoint.saved, states=states)
    return config, ingest


def _saved_config(newest: StoredCheckpoint, note: Callable[[str], None]) -> Config:
    """The configuration that a state was saved with, without what other modules would compute."""
    schema = newest.saved.header.state.schema
    config, absent = from_schema(schema), absent_metrics(schema)
    by_module: defaultdict[str, list[str]] = defaultdict(list)
    for metric, module in absent.items():
        by_module[module].append(metric)
    left_out = [
        f"{newest.path}: {', '.join(metrics)}: left out; kept by {module!r}, which this command "
        "does not load; give --config."
        for module, metrics in by_module.items()
    ]
    if left_out and not (config.metrics or config.metric):
        raise UsageError(" ".join(left_out))
    for line in left_out:
        note(line)
    for path in config.input_files():
        # A pipe or device may never end, and "-" is what the caller pipes into the command.
        is_stream = Path(path).exists() and not Path(path).is_file()
        if path == STDIN or (is_stream and not is_remote(path)):
            raise UsageError(f"{newest.path}: its state names {path}, not a file; give --config.")
    return config


_COUNTING = ("labels", "segments", "pane", "depth", "max_items")
"""Settings that give counts their meaning; the others only say how records are decoded."""


def other_counting(config: Config, header: Header) -> str | None:
    """Describe settings of a checkpoint that differ from a configuration; None if none do."""
    current, saved = (
        {key: settings[key] for key in _COUNTING if key in settings}
        for settings in (config.settings(), header.state.settings)
    )
    return other_settings(current, saved)


def _check_settings(config: Config, checkpoint: StoredCheckpoint, newest: str | None) -> None:
    """Raise a UsageError if a checkpoint was counted with other labels, panes or depth.

    `newest`: path of the store that the configuration is from; None for a file.
    """
    difference = other_counting(config, checkpoint.saved.header)
    if difference is not None:
        remedy = "give a --config with the same ones"
        if newest is not None:
            remedy = f"{newest} was written last; read the stores one at a time"
        raise UsageError(f"{checkpoint.path}: {difference}; {remedy}.")


def _checkpoints_in(
    paths: Iterable[str], note: Callable[[str], None]
) -> Iterator[StoredCheckpoint]:
    for path in paths:
        store = store_at(path)
        listing = store.listing()
        faults = [fault.problem for fault in listing.faults]
        for fault in faults:
            note(fault)
        for shard in listing.shards:
            newest = store.newest(shard, listing)
            for problem in newest.damaged:
                if problem not in faults:
                    note(f"{path}: {shard}: {problem}")
            if newest.saved is not None:
                yield StoredCheckpoint(path, shard, newest.saved)


def store_at(path: str) -> Store:
    """The store in a folder or bucket."""
    if is_url(path):
        try:
            scheme_of(path)
        except ValueError as error:
            raise UsageError(str(error)) from error
    if not is_store(path):
        raise UsageError(
            f"{path}: not a store of checkpoints: it has no {IDENTITY_FILE}; "
            "give the folder or URL that [state] path names."
        )
    return store_of(path)
