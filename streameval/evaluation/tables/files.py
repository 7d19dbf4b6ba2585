"""Reads parquet and CSV files as Arrow tables, and columns as ids, numbers and times."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC
from io import BytesIO, TextIOWrapper
from itertools import accumulate
from pathlib import PurePath
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from streameval.decoding.fields import TimeUnit
from streameval.decoding.invalid import Refusal
from streameval.decoding.times import check_time, microsecond_column
from streameval.events.arrow import in_microseconds, refuse_bombs
from streameval.events.batch import IntArray
from streameval.events.errors import InvalidEventError, ProblemError, SourceError
from streameval.events.extras import import_extra
from streameval.events.ragged import Array
from streameval.events.times import YEARS, outside_range
from streameval.sources.opening import expand, size, whole
from streameval.sources.remote import is_remote, reader

Kind: TypeAlias = Literal["string", "integer"]
"""The kind of ids."""

_ROWS: Final = 1 << 16
"""Rows read and counted together: fewer cost more per row, more need more memory."""
_BLOCK = 1 << 20
_PARQUET = b"PAR1"
_DELIMITERS = "\t,;"
_PARQUETS = frozenset({".parquet", ".pq"})
_SUFFIXES = _PARQUETS | {".csv", ".tsv"}
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def arrow(part: str = "") -> Any:
    """pyarrow, or one of its parts: "csv", "compute", "parquet"."""
    return import_extra(
        f"pyarrow.{part}".rstrip("."), "evaluating tables, frames and mappings", "parquet"
    )


def is_table(path: str | FileTable) -> bool:
    """Whether a file is a parquet or CSV file by its name; a frame is a table, too.

    Example:
        >>> is_table("events.parquet"), is_table("events.csv.gz"), is_table("events.ndjson")
        (True, True, False)
    """
    return isinstance(path, FileTable) or _suffix(path) in _SUFFIXES


class TableColumn(NamedTuple):
    """One column of a file."""

    table: FileTable
    name: str
    values: Any

    def of(self, other: Any) -> TableColumn:
        """The column of this name of another Arrow table."""
        return self._replace(values=other[self.name].combine_chunks())

    def error(self, row: int, problem: str, remedy: str) -> SourceError:
        """An error about the value in a row, from 0."""
        where = f"{self.table.place(row)}, column {self.name!r}"
        return SourceError(self.table.path, f"{where}: {problem}", remedy)


class FileTable(NamedTuple):
    """The rows of a file, or some of them.

    Attributes:
        content: Arrow table; all columns of a text file are strings.
        names: names of the columns of the file, in order; the content may have fewer columns.
        text: the bytes of a text file; None for parquet.
        first: index in the file of the first row of the content.
        idle: of a caller's lists, those without an entry, which have no row; None without.
    """

    path: str
    content: Any
    names: Sequence[str]
    text: bytes | None
    first: int = 0
    idle: Any = None

    def column(self, name: str, remedy: str) -> TableColumn:
        """The column with this name."""
        require(self.path, name, self.names, remedy)
        chunk = self.content[name].combine_chunks()
        if arrow().types.is_dictionary(chunk.type):
            chunk = chunk.cast(chunk.type.value_type)
        return TableColumn(self, name, chunk)

    @property
    def listing(self) -> str:
        """The names of the columns, for error messages."""
        return _listing(self.names)

    def place(self, row: int) -> str:
        """The place of a row in the file: its line in text, its number in parquet, from 1."""
        if self.text is None:
            return f"row {self.first + row + 1}"
        quoted, records = False, -1
        for number, line in enumerate(re.split(rb"\r\n|\n|\r", self.text), 1):
            if not quoted and line:
                if records == row:
                    return f"line {number}"
                records += 1
            quoted ^= line.count(b'"') % 2 == 1
        return f"row {row + 1}"


def require(path: str, name: str, names: Sequence[str], remedy: str) -> None:
    """Refuse a file without exactly one column of this name."""
    count = names.count(name)
    if count != 1:
        problem = f"{count} columns {name!r}" if count else f"no column {name!r}"
        remedy = "remove all but one of them" if count else remedy
        raise SourceError(path, f"{problem}; {_listing(names)}", remedy)


def _listing(names: Sequence[str]) -> str:
    return f"its columns: {', '.join(names[:20])}"


class Piece(NamedTuple):
    """Rows of a file that one process reads at once.

    Attributes:
        size: approximate size in bytes; 0 for a pipe.
        groups: row groups of parquet; empty for the whole file.
        first: index in the file of the first row.
        frame: the rows themselves, if they are no file but a caller's frame.
    """

    path: str
    size: int
    groups: tuple[int, ...] = ()
    first: int = 0
    frame: FileTable | None = None


class TableFile(NamedTuple):
    """A file before it is read.

    Attributes:
        schema: Arrow schema of a parquet file; None for text, which has only strings.
        pieces: all rows, in order.
    """

    path: str
    schema: Any
    pieces: list[Piece]


def table_file(path: str | FileTable) -> TableFile:
    """A file with its pieces: one per row group of parquet, one for a text file or a frame."""
    arrow()
    if isinstance(path, FileTable):
        return TableFile(path.path, path.content.schema, [Piece(path.path, 0, frame=path)])
    whole = size(path)
    if whole is None or _suffix(path) not in _PARQUETS:
        return TableFile(path, None, [Piece(path, whole or 0)])
    with _explain_errors(path), _source(path) as source:
        plain = source.read(len(_PARQUET)) == _PARQUET
    if not plain:
        return TableFile(path, table_of(path).content.schema, [Piece(path, whole)])
    with _parquet(path) as file:
        metadata = file.metadata
        rows = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        pieces = [
            Piece(path, whole * count // max(1, metadata.num_rows), (group,), first)
            for group, (count, first) in enumerate(
                zip(rows, accumulate(rows, initial=0), strict=False)
            )
        ]
        return TableFile(path, file.schema_arrow, pieces)


def tables_of(piece: Piece, wanted: Container[str]) -> Iterator[FileTable]:
    """The rows of a piece, in batches."""
    if not piece.groups:
        yield table_of(piece.path) if piece.frame is None else piece.frame
        return
    with _parquet(piece.path) as file:
        names, first = file.schema_arrow.names, piece.first
        chosen = [name for name in names if name in wanted]
        # Without threads, because one that starts at the end of a short process may abort it.
        for batch in file.iter_batches(_ROWS, piece.groups, chosen, use_threads=False):
            batch.validate(full=True)
            yield FileTable(piece.path, arrow().Table.from_batches([batch]), names, None, first)
            first += batch.num_rows


def _source(path: str) -> Any:
    return reader(path) if is_remote(path) else arrow().OSFile(path)


@contextmanager
def _parquet(path: str) -> Iterator[Any]:
    """An open parquet file, for reading in parts."""
    with _explain_errors(path):
        source = _source(path)
        file = arrow("parquet").ParquetFile(source, pre_buffer=is_remote(path))
        refuse_bombs(path, file.metadata)
        with source, file:
            yield file


class EmptyFileError(ProblemError):
    """A file has no bytes; as one with columns alone, it has no event."""


def table_of(path: str) -> FileTable:
    """Read a whole file.

    `path`: parquet, or text whose first line names the columns, separated by tabs, commas or
    semicolons (including RecBole's atomic files); plain, .gz or .zst; "-" is standard input.
    """
    arrow()
    content_bytes = whole(path)
    if not content_bytes:
        raise EmptyFileError(path, "the file is empty", "it has neither columns nor events")
    with _explain_errors(path):
        if content_bytes.startswith(_PARQUET):
            file = arrow("parquet").ParquetFile(
                arrow().BufferReader(content_bytes), pre_buffer=False
            )
            refuse_bombs(path, file.metadata)
            table = file.read(use_threads=False)
            table.validate(full=True)
            return FileTable(path, table, table.column_names, None)
        _refuse_binary(path, content_bytes)
        return _text(path, content_bytes.removeprefix(_BYTE_ORDER_MARK))


def join_tables(path: str | FileTable) -> FileTable:
    """The rows of a file or frame, or those of all tables in a folder or of a pattern."""
    if isinstance(path, FileTable):
        return path
    tables = [table_of(file_path) for file_path in expand(path, is_table)]
    if len(tables) == 1:
        return tables[0]
    with _explain_errors(path):
        rows = arrow().concat_tables(table.content for table in tables)
    return FileTable(path, rows, rows.column_names, None)


@contextmanager
def _explain_errors(path: str) -> Iterator[None]:
    """Convert Arrow's errors about a file to SourceErrors."""
    try:
        yield
    except (arrow().ArrowException, OSError, ValueError, csv.Error) as error:
        problem = " ".join(str(error).split())
        remedy = "give a parquet file, or CSV in UTF-8 with the same number of fields in each line"
        raise SourceError(path, problem, remedy) from error


def _refuse_binary(path: str, content_bytes: bytes) -> None:
    if _suffix(path) in _PARQUETS:
        remedy = "write the file again, or rename it if it is CSV"
        raise SourceError(path, "does not begin like a parquet file", remedy)
    try:
        content_bytes.decode()
    except UnicodeDecodeError as error:
        line = content_bytes.count(b"\n", 0, error.start) + 1
        problem = f"line {line}: byte 0x{content_bytes[error.start]:02x} is not UTF-8"
        raise SourceError(path, problem, "save the file as UTF-8 text") from None


def _text(path: str, content_bytes: bytes) -> FileTable:
    # With the names of all columns, or Arrow would guess types: 007 is not an integer.
    headers = {
        delimiter_tried: _header(content_bytes, delimiter_tried) for delimiter_tried in _DELIMITERS
    }
    delimiter = next((candidate for candidate, names in headers.items() if len(names) > 1), ",")
    reader = arrow("csv")
    table = reader.read_csv(
        arrow().BufferReader(content_bytes),
        reader.ReadOptions(use_threads=False, block_size=max(_BLOCK, len(content_bytes))),
        reader.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        reader.ConvertOptions(
            column_types=dict.fromkeys(headers[delimiter], arrow().large_string())
        ),
    )
    return FileTable(path, table, table.column_names, content_bytes)


def _header(content_bytes: bytes, delimiter: str) -> list[str]:
    """The first row that is not empty, with line ends of any system."""
    lines = TextIOWrapper(BytesIO(content_bytes), "utf-8", newline="")
    return next((row for row in csv.reader(lines, delimiter=delimiter) if row), [])


def _suffix(path: str) -> str:
    name = PurePath(path)
    return (name.with_suffix("") if name.suffix in {".gz", ".zst"} else name).suffix.lower()


def ids_of(column: TableColumn) -> Any:
    """A column of ids as an Arrow array of integers or strings."""
    array = users_of(column)
    missing = arrow("compute").is_null(array)
    if arrow("compute").any(missing).as_py():
        row = missing.to_pylist().index(True)
        raise column.error(row, "no id", "every row needs one; correct the file")
    return array


def users_of(column: TableColumn) -> Any:
    """A column of optional ids as an Arrow array; null and empty text become null."""
    types, array, compute = arrow().types, column.values, arrow("compute")
    # Polars gives views of strings, and a column without rows may have no type.
    views = types.is_string_view(array.type)
    if types.is_string(array.type) or views or types.is_null(array.type):
        array = array.cast(arrow().large_string())
    if not (types.is_integer(array.type) or types.is_large_string(array.type)):
        problem = f"column {column.name!r} holds {array.type}"
        raise SourceError(column.table.path, problem, "write ids as integers or as text")
    if types.is_large_string(array.type):
        nothing = arrow().scalar(None, array.type)
        array = compute.if_else(compute.equal(array, ""), nothing, array)
    return array


def numbers_of(column: TableColumn) -> Array:
    """A column of finite numbers, from numbers or from text; shape (rows,)."""
    array, compute, wanted = column.values, arrow("compute"), arrow().float64()
    try:
        numbers = array.cast(wanted)
    except (arrow().ArrowInvalid, arrow().ArrowNotImplementedError):
        numbers = arrow().array([finite(value) for value in array.to_pylist()], wanted)
    valid = compute.fill_null(compute.is_finite(numbers), fill_value=False)
    if not compute.all(valid, min_count=0).as_py():
        row = valid.to_pylist().index(False)
        problem = f"found {array[row].as_py()!r:.40}, which is not a finite number"
        raise column.error(row, problem, "correct it, or name another column")
    values: Array = numbers.to_numpy(zero_copy_only=False)
    return values


def finite(value: object) -> float | None:
    """A finite number from a number or its text; None if it is not one."""
    try:
        number = float(str(value))
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def times_of(column: TableColumn, unit: TimeUnit) -> IntArray:
    """A column of event times, microseconds since the epoch; shape (rows,).

    Args:
        column: Arrow timestamps or dates in any unit, or numbers or text in `unit`; UTC without
            a zone or an offset.
        unit: unit of numbers and text.
    """
    types, array = arrow().types, column.values
    if types.is_timestamp(array.type) or types.is_date(array.type):
        if array.null_count:
            row = array.is_null().to_pylist().index(True)
            raise column.error(row, "no time", "every row needs one; correct the file")
        try:
            times: IntArray = in_microseconds(array).to_numpy()
        except InvalidEventError as error:
            problem = f"column {column.name!r}: {error.detail}"
            raise SourceError(column.table.path, problem, "correct the file") from error
        if (outside := outside_range(times)).size:
            raise column.error(int(outside[0]), f"not in {YEARS}", "correct the file")
        return times
    text = types.is_string(array.type) or types.is_large_string(array.type)
    written = []
    for row, value in enumerate(array.to_pylist()):
        number = finite(value) if text and unit != "iso8601" else None
        # Text of digits is parsed as an integer, because a float of microseconds is not exact.
        exact = int(value) if number is not None and str(value).strip().isdecimal() else number
        try:
            time = value if exact is None else exact
            # Text without an offset is UTC, as timestamps of Arrow are.
            written.append(check_time(time, unit, column.name, naive=UTC))
        except Refusal as refusal:
            remedy = (
                'write text like "2026-01-31T08:00:00Z", or say how time is '
                "written with --time-unit (s, ms, us or iso8601)"
            )
            raise column.error(row, str(refusal), remedy) from None
    return microsecond_column(written, unit)


def of_one_kind(arrays: Sequence[Any], wanted: Kind = "string") -> list[Any]:
    """Arrays of ids of one type: integers if all are integers, otherwise strings.

    `wanted`: "integer" also converts strings of digits to integers.
    """
    kinds = [arrow().int64() if wanted == "integer" else arrow().large_string()]
    if all(arrow().types.is_integer(array.type) for array in arrays):
        kinds = [arrow().int64(), arrow().uint64(), *kinds]
    for kind in kinds[:-1]:
        with suppress(arrow().ArrowInvalid):  # some integers do not fit
            return [array.cast(kind) for array in arrays]
    try:
        return [array.cast(kinds[-1]) for array in arrays]
    except arrow().ArrowInvalid as error:
        remedy = 'leave out ids = "integer", or give integers'
        raise SourceError("ids", " ".join(str(error).split()), remedy) from error
