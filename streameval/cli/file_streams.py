"""Which files are which streams, and where reading them begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from streameval.attribution.grouping import Grouped
from streameval.cli.ending import WrongCallError
from streameval.config import Config
from streameval.config.attribution import renamed
from streameval.errors import nearest
from streameval.records import Assignment, Owner, Partition
from streameval.sources.options import FilesOptions
from streameval.sources.owning import Positions


class Counting(Protocol):
    """What counts the records of files."""

    def home(self, partition: Partition) -> Partition:
        """The partition under whose name a log is counted."""

    def begin(self, partition: Partition, offsets: Mapping[Partition, int], /) -> None:
        """Start with nothing counted."""


class _Begun:
    """Begins what it is given, each log where the source says."""

    def __init__(self, counting: Counting) -> None:
        self._counting = counting

    def assigned(self, assignments: Sequence[Assignment]) -> Mapping[Partition, int]:
        found: dict[Partition, int] = {}
        for each in assignments:
            starts = {log.partition: log.start for log in each.logs}
            self._counting.begin(each.partition, starts)
            found |= starts
        return found

    def revoked(self, partitions: Sequence[Partition]) -> None:
        """Nothing to finish."""

    def lost(self, partitions: Sequence[Partition]) -> None:
        """Nothing to forget."""


def beginning(config: Config, counting: Counting) -> Owner:
    """Who says where reading the files begins."""
    if config.attribution is None:
        return Positions()
    topics = [each for stream in config.attribution.streams for each in stream]
    return Grouped(_Begun(counting), counting.home, topics)


def of_files(config: Config, paths: Sequence[str]) -> Config:
    """The configuration with files in place of what it reads.

    Where it joins streams, a file is the stream of which it has the name: "clicks.ndjson.gz" is
    the topic "clicks". Without any path, the files of the configuration are read.

    Raises:
        WrongCallError: a file is none of the streams, or a stream has no file.
    """
    if not paths and isinstance(config.source, FilesOptions):
        return config
    replace = msgspec.structs.replace
    config = replace(config, source=FilesOptions(paths=list(paths)))
    if config.attribution is None:
        return config
    named = {stem(name): name for stream in config.attribution.streams for name in stream}
    files = {named.get(stem(path)): path for path in paths}
    for path in paths:
        if stem(path) not in named:
            raise WrongCallError(_unknown(path, list(named)))
    missing = [name for name in named.values() if name not in files]
    if missing:
        told = ", ".join(map(repr, missing))
        problem = f"[attribution] joins {told} as well; give a file of that name, like"
        raise WrongCallError(f"{problem} {stem(missing[0])}.ndjson.")
    there = {name: path for name, path in files.items() if name is not None}
    return replace(config, attribution=renamed(config.attribution, there))


def stem(path: str) -> str:
    """The name of a topic, or that of a file without folders and the endings of its form.

    >>> stem("logs/shop.clicks.ndjson.gz"), stem("shop.clicks")
    ('shop.clicks', 'shop.clicks')
    """
    name = Path(path).name
    for ending in (".gz", ".zst", ".ndjson", ".jsonl", ".json"):
        name = name.removesuffix(ending)
    return name


def _unknown(path: str, names: Sequence[str]) -> str:
    offered = nearest(stem(path), names)
    hint = f" Did you mean {offered[0]}.ndjson?" if offered else ""
    known = ", ".join(names)
    return (
        f"{path}: it is none of the streams that [attribution] joins ({known}), by its name.{hint}"
    )
