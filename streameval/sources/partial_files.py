"""Files with rows of `streameval.partials` in a folder or bucket; selects those that count."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from streameval.events.errors import SourceError
from streameval.events.records import CommitAnswer, Partition, PartitionOwner, RecordBatch
from streameval.sources import remote
from streameval.sources.opening import unreadable
from streameval.sources.settings import PartialsOptions
from streameval.sources.source import UNHURRIED, SourceStatus

RUN: Final = "run="
"""Beginning of the name of a folder that replaces all others of its kind beside it."""

SUCCESS: Final = "_SUCCESS"
"""File in the folder of a run that is complete, as Spark and Hadoop write it."""


class PartialFile(NamedTuple):
    """A file of a listing.

    Attributes:
        path: of the file, or URL of the object.
        modified: seconds since the epoch.
        tag: changes whenever the content does.
    """

    path: str
    modified: float
    tag: str


def partial_files(path: str) -> dict[str, PartialFile]:
    """The files below a folder or URL that count, by name relative to it; see `counting`.

    Raises:
        SourceError: it cannot be listed.
    """
    files = _remote_files(path) if remote.is_remote(path) else _local_files(path)
    return {name: files[name] for name in counting(files)}


def sample_file(path: str) -> str | None:
    """A parquet file below a folder or URL, or the path itself if it is one; None without any.

    Looks at the first thousand folders, or objects, only.
    """
    if path.endswith(_SUFFIXES):
        return path
    if remote.is_remote(path):
        objects = islice(remote.objects_below(path), _MOST_LOOKS)
        return next(
            (stored_object.url for name, stored_object in objects if name.endswith(_SUFFIXES)), None
        )
    for folder, folders, names in islice(os.walk(path), _MOST_LOOKS):
        folders[:] = [name for name in sorted(folders) if name[0] not in "._"]
        for name in sorted(names):
            if name.endswith(_SUFFIXES) and name[0] not in "._":
                return os.path.join(folder, name)  # noqa: PTH118  text in, text out
    return None


def counting(names: Iterable[str]) -> list[str]:
    """The names of the files that count, sorted.

    Hidden files do not count. Of the folders `run=ID` beside each other only one does: the last by
    name of those with a file `_SUCCESS`, so that a run that is repeated, or still being written,
    counts no list twice. All other folders add up.

    Example:
        >>> counting(
        ...     [
        ...         *("day=1/run=a/0.parquet", "day=1/run=a/_SUCCESS"),
        ...         *("day=1/run=b/0.parquet", "day=1/run=b/_SUCCESS"),
        ...         *("day=1/run=c/0.parquet", "day=2/0.parquet", "day=2/_temporary/0.parquet"),
        ...     ]
        ... )
        ['day=1/run=b/0.parquet', 'day=2/0.parquet']
    """
    every = sorted(names)
    complete: dict[str, str] = {}
    for name in every:
        folder, _, file = name.rpartition("/")
        before, _, run = folder.rpartition("/")
        if file == SUCCESS and run.startswith(RUN):
            complete[before] = max(run, complete.get(before, ""))
    return [name for name in every if _counts(name.split("/"), complete)]


def _counts(parts: Sequence[str], complete: Mapping[str, str]) -> bool:
    if any(part.startswith((".", "_")) for part in parts) or not parts[-1].endswith(_SUFFIXES):
        return False
    return all(
        not part.startswith(RUN) or complete.get("/".join(parts[:at])) == part
        for at, part in enumerate(parts[:-1])
    )


_SUFFIXES: Final = (".parquet", ".pq")
_MOST_LOOKS: Final = 1_000


def _local_files(path: str) -> dict[str, PartialFile]:
    top, files = Path(path), dict[str, PartialFile]()
    try:
        if not top.is_dir():
            raise SourceError(path, "no such folder", "name the folder that the engine wrote")
        for file in sorted(top.rglob("*")):
            if file.is_file():
                status = file.stat()
                tag = f"{status.st_size} {status.st_mtime_ns} {status.st_ino}"
                name = file.relative_to(top).as_posix()
                files[name] = PartialFile(str(file), status.st_mtime, tag)
    except OSError as error:
        raise unreadable(path, error) from error
    return files


def _remote_files(url: str) -> dict[str, PartialFile]:
    return {
        name: PartialFile(stored_object.url, stored_object.modified, stored_object.tag)
        for name, stored_object in remote.objects_below(url)
    }


class CountedElsewhere:
    """A source whose records were counted by an engine; it cannot be read, only served."""

    cluster = "partials"
    budget = UNHURRIED
    status = SourceStatus(joined=False)

    def __init__(self, options: PartialsOptions) -> None:
        self._path = options.path
        self.name = f"partials in {options.path}"

    def open(self, _: PartitionOwner) -> None:
        """Raise a SourceError: there is nothing to count."""
        problem = "its rows are counted already"
        raise SourceError(self._path, problem, "show them with `streameval serve CONFIG`")

    def poll(self, _: float) -> Sequence[RecordBatch]:
        """No records."""
        return ()

    def pause(self, _: Collection[Partition]) -> None:
        """Do nothing."""

    def commit(
        self,
        _: Mapping[Partition, int],
        *,
        wait: bool = True,  # noqa: ARG002  of the contract
    ) -> str | CommitAnswer | None:
        """Do nothing."""
        return None

    def close(self) -> None:
        """Do nothing."""
