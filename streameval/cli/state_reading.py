"""Saved states as a pipeline that has counted what they hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from streameval.cli.ending import WrongCallError, tell
from streameval.cli.state_stores import store_at
from streameval.config import Config, load
from streameval.config.counting import counting, fitted
from streameval.config.schema import from_schema
from streameval.durability.checkpoint import Header, Place
from streameval.durability.store import Saved
from streameval.pipeline.ingest import Ingest
from streameval.records import Partition


class Held(NamedTuple):
    """A checkpoint, and the folder that it was found in.

    Attributes:
        path: of the store.
        place: of its log.
        saved: what is held.
    """

    path: Path
    place: Place
    saved: Saved


def held_in(paths: Sequence[Path], partitions: Sequence[str] = ()) -> list[Held]:
    """The newest sound checkpoint of every place; damaged ones are told of.

    Of a topic that was deleted and made again, only the state that was written last.

    Args:
        paths: of the stores.
        partitions: which ones, as TOPIC/NUMBER; none means all.

    Raises:
        WrongCallError: a path is no store, or there is no such partition.
        StoreError: a store cannot be read.
        StateVersionError: a newer release wrote a state.
    """
    newest: dict[tuple[Path, str, int], Held] = {}
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
            problem = f"--partition {name!r}: there is no state of it, but of {known_names}."
            raise WrongCallError(problem)
    wanted = set(partitions) or names
    return [each for each in found if f"{each.place.topic}/{each.place.number}" in wanted]


def counted(held: Sequence[Held], config_path: Path | None) -> tuple[Config, Ingest]:
    """One pipeline that has counted what all of them hold; their configuration.

    Args:
        held: at least one.
        config_path: of a configuration in place of the one that the states were made with.

    Raises:
        ConfigError: the configuration cannot be used.
        UnlikeStateError: a state was made with other settings, or others than the others.
        DamagedStateError: a state is not what was written.
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
    """Of each log behind the state."""
    joined = {Partition.of(log): offset for log, offset in header.offsets.items()}
    return joined or {partition: header.offset}


def _all(paths: Iterable[Path]) -> Iterator[Held]:
    for path in paths:
        store = store_at(path)
        for place in store.places():
            found = store.newest(place)
            for problem in found.passed_over:
                tell(f"{path}: {place}: {problem}")
            if found.saved is not None:
                yield Held(path, place, found.saved)
