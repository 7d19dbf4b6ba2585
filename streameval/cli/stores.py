"""Stores of checkpoints named on the command line, newest checkpoint first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from streameval.checkpoints.checkpoint import Header, Place
from streameval.checkpoints.format import CLAIM
from streameval.checkpoints.settings import AS_ENVIRONMENT, BucketOptions, is_url, url_of
from streameval.checkpoints.store import SavedCheckpoint, Store, is_store, store_of
from streameval.cli.ending import WrongCallError, tell
from streameval.config import Config, load
from streameval.config.config import from_schema
from streameval.config.pipeline import counting, fitted
from streameval.engine.ingest import Ingest
from streameval.events.records import Partition


class Held(NamedTuple):
    """A checkpoint, and the store that it was found in."""

    path: str
    place: Place
    saved: SavedCheckpoint


def held_in(paths: Sequence[str], partitions: Sequence[str] = ()) -> list[Held]:
    """The newest valid checkpoint of every place; prints the damaged ones.

    Of a topic that was deleted and made again, only the state written last.

    `partitions`: which ones, as TOPIC/NUMBER; none means all.
    """
    newest: dict[tuple[str, str, int], Held] = {}
    for each in _all(paths):
        key = (each.path, each.place.topic, each.place.number)
        known = newest.get(key)
        if known is None or known.saved.header.written_at < each.saved.header.written_at:
            newest[key] = each
    found = [each for _, each in sorted(newest.items())]
    names = {f"{each.place.topic}/{each.place.number}" for each in found}
    for name in partitions:
        if name not in names:
            known_names = ", ".join(sorted(names)) or "none"
            problem = f"--partition {name!r}: not in the stores, which have {known_names}."
            raise WrongCallError(problem)
    wanted = set(partitions) or names
    return [each for each in found if f"{each.place.topic}/{each.place.number}" in wanted]


def counted(held: Sequence[Held], config_path: Path | None) -> tuple[Config, Ingest]:
    """The configuration of the states, and one ingest that has loaded all of them.

    `config_path`: a configuration to use instead of the saved one.
    """
    newest = max(held, key=lambda each: each.saved.header.written_at)
    config = load(config_path) if config_path else from_schema(newest.saved.header.schema)
    config = fitted(config, newest.saved.header.settings)
    ingest = counting(config)
    for number, each in enumerate(held):
        # Stores of several clusters may have partitions of the same name.
        partition = Partition(f"{number}:{each.place.topic}", each.place.number)
        parts = {name: each.saved.read(name) for name in sorted(each.saved.digests)}
        ingest.restore(partition, _offsets(partition, each.saved.header), parts)
    return config, ingest


def _offsets(partition: Partition, header: Header) -> dict[Partition, int]:
    """The next offset of each log of the state."""
    joined = {Partition.of(log): offset for log, offset in header.offsets.items()}
    return joined or {partition: header.offset}


def _all(paths: Iterable[str]) -> Iterator[Held]:
    for path in paths:
        store = store_at(path)
        for place in store.places():
            found = store.newest(place)
            for problem in found.damaged:
                tell(f"{path}: {place}: {problem}")
            if found.saved is not None:
                yield Held(path, place, found.saved)


def store_at(path: str, options: BucketOptions = AS_ENVIRONMENT) -> Store:
    """The store in a folder or bucket."""
    if is_url(path):
        try:
            url_of(path)
        except ValueError as error:
            raise WrongCallError(str(error)) from error
    if not is_store(path, options):
        raise WrongCallError(
            f"{path}: not a store of checkpoints: it has no {CLAIM}; "
            "give the folder or URL that [state] path names."
        )
    return store_of(path, options)
