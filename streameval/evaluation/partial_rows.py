"""Rows of partial results: as engines return them, as Arrow tables and as parquet files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, Final, NamedTuple, TypeAlias

from streameval.evaluation.files import arrow
from streameval.events.arrow import ArrowTable, as_table, refuse_bombs
from streameval.events.errors import DamagedStateError, SourceError, damage_as_error

_LONGEST_STATE: Final = 1 << 30
"""Most bytes of the state of a row: more than a table of all items and users takes."""


class Cell(NamedTuple):
    """A slice and a span of event time.

    Attributes:
        labels: values of the columns in `by`; `__missing__` for null.
        start: start of the span, microseconds since the epoch; None for all time, and for lists
            without a time.

    Example:
        >>> Cell(("treatment",), None).labels
        ('treatment',)
    """

    labels: tuple[str, ...]
    start: int | None


class Partial(NamedTuple):
    """The counts of lists of one cell.

    Attributes:
        state: the counts as bytes; equal counts give equal bytes.

    Example:
        >>> import pyarrow
        >>> from streameval.partials import partials
        >>> table = pyarrow.table({"recommendations": [["a"]], "interactions": [["a"]]})
        >>> (row,) = partials([table], "mrr")
        >>> row.labels, row.start, row.lists, type(row.state)
        ((), None, 1, <class 'bytes'>)
    """

    labels: tuple[str, ...]
    start: int | None
    lists: int
    state: bytes


Row: TypeAlias = Partial | Sequence[Any] | Mapping[str, Any]
"""A partial, or the sequence or mapping that an engine returns for it."""

Rows: TypeAlias = Iterable[Row] | ArrowTable


def arrow_table(rows: Rows) -> Any:
    """The rows as an Arrow table, for engines and parquet.

    Raises:
        MissingExtraError: pyarrow is not installed.

    Example:
        >>> import pyarrow
        >>> from streameval.partials import partials
        >>> table = pyarrow.table({"recommendations": [["a"]], "interactions": [["a"]]})
        >>> arrow_table(partials([table], "mrr")).column_names
        ['labels', 'start', 'lists', 'state']
    """
    schema = arrow().schema(
        {
            "labels": arrow().list_(arrow().string()),
            "start": arrow().int64(),
            "lists": arrow().int64(),
            "state": arrow().binary(),
        }
    )
    return arrow().Table.from_pylist(
        [row._asdict() for row in map(row_of, rows_one_by_one(rows))], schema
    )


def stored(path: str | PathLike[str]) -> Iterator[Partial]:
    """Read rows from a parquet file or folder.

    Raises:
        SourceError: it cannot be read, or lacks a column.
        MissingExtraError: pyarrow is not installed.

    Example:
        >>> import pathlib, pyarrow, tempfile
        >>> from pyarrow import parquet
        >>> from streameval.partials import partials
        >>> table = pyarrow.table({"recommendations": [["a"]], "interactions": [["a"]]})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder) / "monday.parquet"
        ...     parquet.write_table(arrow_table(partials([table], "mrr")), path)
        ...     [row.lists for row in stored(path)]
        [1]
    """
    try:
        file = arrow("parquet").ParquetDataset(path)
        for fragment in file.fragments:
            refuse_bombs(fragment.path, fragment.metadata, _LONGEST_STATE)
        table = file.read(columns=list(Partial._fields))
    except (OSError, TypeError, ValueError, arrow().ArrowException) as error:
        problem = f"no rows of streameval.partials in parquet: {' '.join(str(error).split())}"
        remedy = "write them with arrow_table, or with result.partials.write.parquet on Spark"
        raise SourceError(str(path), problem, remedy) from error
    for batch in table.to_batches():
        yield from map(row_of, batch.to_pylist())


def rows_one_by_one(rows: Any) -> Iterable[Row]:
    """The rows one by one; raises DamagedStateError for what has none."""
    if isinstance(rows, ArrowTable):
        listed: list[Row] = as_table(rows).to_pylist()
        return listed
    if not isinstance(rows, Iterable):
        problem = f"{rows!r:.80} is not a list or an iterator of rows"
        raise DamagedStateError("partials", problem)
    return rows


def row_of(row: Row) -> Partial:
    """The partial that an engine returned; raises DamagedStateError if it is none."""
    try:
        with damage_as_error("partial"):
            named = [row[name] for name in Partial._fields] if isinstance(row, Mapping) else row
            partial = Partial(*named)
            labels = tuple(str.__str__(label) for label in partial.labels)
            start = partial.start
            # pandas turns integers with a missing value into floats.
            missing = start is None or start != start  # noqa: PLR0124  only NaN differs from itself
            return partial._replace(labels=labels, start=None if missing else _whole(start))
    except DamagedStateError as error:
        problem = f"{row!r:.80} is not a row of partials: {error.problem}"
        raise DamagedStateError("partial", problem) from error


def _whole(start: Any) -> int:
    if int(start) != start:
        problem = f"start={start!r} is not whole microseconds"
        raise ValueError(problem)
    return int(start)
