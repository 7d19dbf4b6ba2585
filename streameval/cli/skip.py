"""`streameval skip`: passes one record that no process can count."""

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
from streameval.cli.ending import WrongCallError, output
from streameval.cli.state import Held, counted, store_at
from streameval.config import Config, load
from streameval.decoding.invalid import InvalidEvent
from streameval.engine.dead_letters import DeadLetter, Identity, letters_of
from streameval.events.records import Partition, RecordBatch
from streameval.sources.options import KafkaOptions


def skip(
    config: Annotated[
        Path, Argument(metavar="CONFIG", help="The TOML file that the daemon runs with.")
    ],
    *,
    topic: Annotated[str, Option(metavar="TOPIC", help="Topic of the record.")],
    partition: Annotated[int, Option(metavar="NUMBER", min=0, help="Its partition.")],
    offset: Annotated[int, Option(metavar="OFFSET", min=0, help="Its offset.")],
    by: Annotated[
        str | None, Option(metavar="NAME", help="Who skips it; by default USER@HOST.")
    ] = None,
) -> None:
    """Skip one record at which the daemon stops because counting it fails.

    ```
    streameval skip streameval.toml --topic events --partition 3 --offset 14
    ```

    The order is durable beside the checkpoints when the command ends. A daemon that starts or
    takes over the partition writes the record to the dead letters, with the reason `skipped` and
    who, when and why, and counts on without it. Only a record that a daemon named when it stopped
    is accepted, while no checkpoint covers it. `streameval dlq replay` counts it after a fix.

    A list of a join can fail when its window is over. Then the command also reads its record from
    the log, and the list is removed from the state.
    """
    record = Identity(Partition(topic, partition), offset)
    _skip(config, record, by or f"{_user()}@{gethostname()}")


def _user() -> str:
    try:
        return getuser()
    except (KeyError, OSError):
        # Containers often run under a number that has no name.
        return str(os.getuid())


class _Noted(NamedTuple):
    """A record at which a process stopped, and the place that it belongs to."""

    place: Place
    stop: Stop


def _skip(path: Path, record: Identity, by: str) -> None:
    config = load(path)
    store = _store(path, config)
    noted = _noted(store, record)
    order = Skip(stop=noted.stop, by=by, at=time.time())
    saved = store.newest(noted.place).saved
    if saved is not None and _covered(saved.header, record) > record.offset:
        if not _waits(path, noted, saved):
            raise WrongCallError(
                f"{_text(record)} was counted meanwhile: the checkpoint covers everything below "
                f"offset {_covered(saved.header, record)}. Nothing is skipped."
            )
        order = msgspec.structs.replace(order, letter=_letter(config, record, order.message))
    done = "is skipped" if store.skip(noted.place, order) else "was skipped before"
    with output():
        sys.stdout.write(
            f"{_text(record)} {done}: the daemon writes it to the dead letters at its next start, "
            "and goes on.\n"
        )


def _waits(path: Path, noted: _Noted, saved: SavedCheckpoint) -> bool:
    """Whether a checkpoint holds the record as a list that waits for interactions."""
    if not noted.stop.waiting:
        return False
    _, counts = counted([Held(str(path), noted.place, saved)], path)
    (state,) = counts.partitions.values()
    return state.remove(noted.stop.record)


def _letter(config: Config, record: Identity, message: str) -> DeadLetter:
    """The record as a dead letter; without its bytes where its log has deleted it."""
    partition, offset = record
    batch = config.source.batch_at(os.environ, partition, offset)
    if batch is None:
        gone = f"{message}; its log had deleted it"
        batch = RecordBatch(partition=partition, values=[b""], offsets=[offset], next_offset=offset)
        return letters_of(batch, [(0, InvalidEvent("skipped", gone))])[0]
    place = batch.offsets.index(offset)
    return letters_of(batch, [(place, InvalidEvent("skipped", message))])[0]


def _store(path: Path, config: Config) -> Store:
    """Where the daemon of a configuration keeps its checkpoints."""
    if config.state is None:
        raise WrongCallError(f"{path}: no [state], so there is nothing to resume from.")
    letters = config.dead_letters
    if not isinstance(config.source, KafkaOptions) and (letters is None or letters.path is None):
        raise WrongCallError(
            f"{path}: this source keeps no dead letters; name a file in [dead_letters] path."
        )
    return store_at(config.state.path, config.state.bucket)


def _noted(store: Store, record: Identity) -> _Noted:
    """What was noted of the record."""
    notes = [_Noted(place, stop) for place in store.places() for stop in store.stops(place)]
    notes.sort(key=lambda each: each.stop.at)
    here = [each for each in notes if each.stop.record.partition == record.partition]
    found = [each for each in here if each.stop.record == record]
    if found:
        return found[-1]
    where = "no daemon has stopped at a record of it"
    if here:
        where = f"the daemon stopped at offset {here[-1].stop.offset} of it"
    raise WrongCallError(
        f"{record.partition}: {where}, and only a record at which it stopped can be skipped, "
        f"not offset {record.offset}."
    )


def _covered(header: Header, record: Identity) -> int:
    """The next offset of the record's log that a checkpoint has not counted."""
    return header.offsets.get(str(record.partition), header.offset)


def _text(record: Identity) -> str:
    return f"{record.partition} offset {record.offset}"
