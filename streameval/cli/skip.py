"""`streameval skip`: skips one record that no process can count."""

from __future__ import annotations

import os
import sys
import time
from getpass import getuser
from pathlib import Path
from socket import gethostname
from typing import Annotated, NamedTuple

import msgspec
from typer import Argument, Option

from streameval.checkpoints.checkpoint import Header, Place, Skip, Stop
from streameval.checkpoints.store import SavedCheckpoint, Store
from streameval.cli.errors import output
from streameval.config import Config, load
from streameval.decoding.invalid import InvalidEvent
from streameval.engine.dead_letters import DeadLetter, Identity, letters_of
from streameval.events.records import Partition, RecordBatch
from streameval.offline.states import StoredCheckpoint, restore, store_at
from streameval.offline.surroundings import UsageError
from streameval.sources.options import KafkaOptions


def skip(
    config: Annotated[
        Path, Argument(metavar="CONFIG", help="The TOML file that the daemon runs with.")
    ],
    *,
    topic: Annotated[str, Option(metavar="TOPIC", help="Topic of the record.")],
    partition: Annotated[int, Option(metavar="NUMBER", min=0, help="Partition of the record.")],
    offset: Annotated[int, Option(metavar="OFFSET", min=0, help="Offset of the record.")],
    by: Annotated[
        str | None,
        Option(metavar="NAME", help="Name recorded in the dead letter; by default USER@HOST."),
    ] = None,
) -> None:
    """Skip one record that makes the daemon stop because it cannot be counted.

    ```
    streameval skip streameval.toml --topic events --partition 3 --offset 14
    ```

    The command stores the order durably with the checkpoints. The next daemon that starts or takes
    over the partition writes the record to the dead letters, with the reason `skipped` and who,
    when and why, and continues without it. The command accepts only a record that a daemon named
    when it stopped, and only while no checkpoint covers it. `streameval dlq replay` counts the
    record after a fix.

    In a join, counting a list can fail when its window ends. The command then also reads its
    record from the log, and the daemon removes the list from the state.
    """
    record = Identity(Partition(topic, partition), offset)
    _skip(config, record, by or f"{_user()}@{gethostname()}")


def _user() -> str:
    try:
        return getuser()
    except (KeyError, OSError):
        # Containers often run under a user id without a name.
        return str(os.getuid())


class _RecordedStop(NamedTuple):
    """A stop that a daemon recorded, and the place of its partition."""

    place: Place
    stop: Stop


def _skip(path: Path, record: Identity, by: str) -> None:
    config = load(path)
    store = _store(path, config)
    recorded = _recorded_stop(store, record)
    order = Skip(stop=recorded.stop, by=by, at=time.time())
    saved = store.newest(recorded.place).saved
    if saved is not None and _covered(saved.header, record) > record.offset:
        if not _is_waiting(path, recorded, saved):
            raise UsageError(
                f"{_text(record)} has been counted since: the checkpoint covers all offsets below "
                f"{_covered(saved.header, record)}. Nothing is skipped."
            )
        order = msgspec.structs.replace(order, letter=_letter(config, record, order.message))
    done = "is skipped" if store.skip(recorded.place, order) else "was skipped before"
    with output():
        sys.stdout.write(
            f"{_text(record)} {done}: at its next start the daemon writes it to the dead letters "
            "and continues.\n"
        )


def _is_waiting(path: Path, recorded: _RecordedStop, saved: SavedCheckpoint) -> bool:
    """Whether the checkpoint holds the record as a list that waits for interactions."""
    if not recorded.stop.waiting:
        return False
    _, counts = restore([StoredCheckpoint(str(path), recorded.place, saved)], path)
    (state,) = counts.partitions.values()
    return state.remove(recorded.stop.record)


def _letter(config: Config, record: Identity, message: str) -> DeadLetter:
    """The record as a dead letter; without its bytes if the log has deleted them."""
    partition, offset = record
    batch = config.source.batch_at(os.environ, partition, offset)
    if batch is None:
        gone = f"{message}; the log had deleted the record"
        batch = RecordBatch(partition=partition, values=[b""], offsets=[offset], next_offset=offset)
        return letters_of(batch, [(0, InvalidEvent("skipped", gone))])[0]
    place = batch.offsets.index(offset)
    return letters_of(batch, [(place, InvalidEvent("skipped", message))])[0]


def _store(path: Path, config: Config) -> Store:
    """The store of checkpoints of a configuration's daemon."""
    if config.state is None:
        raise UsageError(f"{path}: no [state], so there is nothing to resume from.")
    letters = config.dead_letters
    if not isinstance(config.source, KafkaOptions) and (letters is None or letters.path is None):
        raise UsageError(
            f"{path}: this source has no dead letters; name a file in [dead_letters] path."
        )
    return store_at(config.state.path, config.state.bucket)


def _recorded_stop(store: Store, record: Identity) -> _RecordedStop:
    """The last stop that a daemon recorded at this record."""
    notes = [_RecordedStop(place, stop) for place in store.places() for stop in store.stops(place)]
    notes.sort(key=lambda each: each.stop.at)
    here = [each for each in notes if each.stop.record.partition == record.partition]
    found = [each for each in here if each.stop.record == record]
    if found:
        return found[-1]
    where = "no daemon has stopped at a record of this partition"
    if here:
        where = f"the daemon stopped at offset {here[-1].stop.offset}"
    raise UsageError(
        f"{record.partition}: {where}; only the record at which a daemon stopped can be skipped, "
        f"not offset {record.offset}."
    )


def _covered(header: Header, record: Identity) -> int:
    """The first offset of the record's log that the checkpoint does not cover."""
    return header.offsets.get(str(record.partition), header.offset)


def _text(record: Identity) -> str:
    return f"{record.partition} offset {record.offset}"
