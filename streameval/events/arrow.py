"""Columns of Arrow arrays and tables, from any library with the Arrow interface.

Functions raise MissingExtraError without pyarrow, and InvalidEventError for data without events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from streameval.events.errors import InvalidEventError, SourceError
from streameval.events.extras import import_extra
from streameval.events.ragged import Array, IdColumn, Ragged
from streameval.events.rules import LONGEST_LIST

LONGEST_CELL: Final = 1 << 26
"""Most bytes of a cell of parquet."""


@runtime_checkable
class ArrowStream(Protocol):
    """A table or a chunked array of pyarrow, Polars, pandas, DuckDB, ..."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...


@runtime_checkable
class ArrowArray(Protocol):
    """An array or a record batch of pyarrow and others."""

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any: ...


ArrowTable: TypeAlias = ArrowStream | ArrowArray


def refuse_bombs(path: str, metadata: Any, longest_cell: int = LONGEST_CELL) -> None:
    """Refuse a parquet file whose metadata declare a list or cell above the limits.

    Parquet stores a repeated value once, so a kilobyte can hold a list of millions. The metadata
    give its size before it is expanded.

    Args:
        path: of the file.
        metadata: `pyarrow.parquet.FileMetaData`.
        longest_cell: bytes of a cell.

    Raises:
        SourceError: it has such a part.
    """
    remedy = "cut them before they are written"
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        rows = max(1, group.num_rows)  # a column without rows has a header
        for at in range(group.num_columns):
            column, name = group.column(at), group.column(at).path_in_schema.partition(".")[0]
            if column.num_values > rows * LONGEST_LIST:
                most = column.num_values // rows
                problem = f"column {name!r} has lists of {most:,} items"
                raise SourceError(path, f"{problem}, more than {LONGEST_LIST:,}", remedy)
            if column.total_uncompressed_size > rows * longest_cell:
                problem = f"column {name!r} has cells of more than {longest_cell:,} bytes"
                raise SourceError(path, problem, remedy)


def table_columns(table: Any, names: Sequence[str]) -> Mapping[str, Any]:
    """The columns with these names; recommendations and interactions are required."""
    all_columns = as_table(table)
    table_with_users = with_user_column(all_columns)
    for name in ("recommendations", "interactions"):
        column_of(all_columns, name)
    return {
        name: column_of(table_with_users, name)
        for name in names
        if name in table_with_users.column_names
    }


def with_user_column(table: Any) -> Any:
    """The table with its users as the column `users`, which files and frames also call `user`."""
    names = table.column_names
    if "users" in names or "user" not in names:
        return table
    return table.rename_columns(["users" if name == "user" else name for name in names])


def column_of(table: Any, name: str, rows: str = "", label: str = "") -> Any:
    """The column of this name of a pyarrow table.

    `rows`, `label`: what an error calls the rows, instead of "the table", and the column.

    Raises:
        InvalidEventError: there is no such column, or several.
    """
    number = table.column_names.count(name)
    if number != 1:
        columns = ", ".join(table.column_names) or "none"
        subject, whose = (f"{rows} have", "their") if rows else ("the table has", "its")
        detail = f"{subject} {number or 'no'} column{'s' * (number > 1)} {(label or name)!r}"
        raise InvalidEventError("missing_field", f"{detail}; {whose} columns: {columns}")
    return table[name]


def as_table(table: Any) -> Any:
    """A pyarrow table from any object with the Arrow interface.

    Columns are not copied, except those that `normalize_table` decodes.
    """
    refuse_lazy(table)
    # `table` imports pandas if it is installed, which takes half a second per process.
    if not isinstance(table, _arrow().Table):
        table = _convert(_with_named_pairs(table), _arrow().table, "a table")
    return normalize_table(table)


def normalize_table(table: Any) -> Any:
    """The table with layouts that pyarrow computes on.

    Views of strings and bytes (from Polars) become strings and bytes, list views become lists, and
    run-end-encoded columns are decoded.
    """
    columns = [_normalize(column) for column in table.columns]
    return _arrow().Table.from_arrays(columns, names=table.column_names)


def _with_named_pairs(table: Any) -> Any:
    """A frame of pandas with cells like [("tea", 0.9)] as structs; Arrow has no pairs."""
    if type(table).__module__.partition(".")[0] != "pandas":
        return table
    named = {}
    for name, cells in table.items():
        first = next((cell for cell in cells if cell is not None), None)
        pairs = isinstance(first, list) and first
        if cells.dtype == object and pairs and all(map(_is_pair, pairs)):
            named[name] = [
                cell and [{"item": item, "score": score} for item, score in cell] for cell in cells
            ]
    return table.assign(**named) if named else table


def _is_pair(entry: object) -> bool:
    return isinstance(entry, tuple) and len(entry) == 2


def refuse_lazy(table: Any) -> None:
    """Refuse a lazy table of Polars, which may lack the Arrow interface."""
    if hasattr(table, "collect_schema") and hasattr(table, "collect"):
        detail = f"{type(table).__name__} is lazy; give the result of its .collect()"
        raise InvalidEventError("wrong_type", detail)


def null_rows(array: Any) -> NDArray[np.bool_]:
    """True for the rows of an Arrow array that are null; shape (rows,)."""
    column = _array(array)
    if not column.null_count:
        return np.zeros(len(column), np.bool_)
    bits = np.frombuffer(column.is_null().buffers()[1], np.uint8)
    return np.unpackbits(bits, count=len(column), bitorder="little").view(np.bool_)


def list_column(name: str, array: Any, *, optional: bool = False) -> IdColumn | Array:
    """An Arrow array of lists as a column; lists of a fixed size as a matrix.

    Interactions may be integers, one per event, which become a matrix of one column.

    `optional`: whether a row may be null; a null row becomes an empty list.
    """
    arrow = _arrow()
    column = _array(array)
    kind = column.type
    if not len(column) or (optional and arrow.types.is_null(kind)):
        return IdColumn(Ragged(np.zeros(0, np.int64), np.zeros(len(column) + 1, np.int64)))
    if name == "interactions" and arrow.types.is_integer(kind) and not column.null_count:
        return _numbers(column)[:, None]
    fixed = arrow.types.is_fixed_size_list(kind)
    if not (fixed or arrow.types.is_list(kind) or arrow.types.is_large_list(kind)):
        remedy = "give a column with a list for each event"
        if _is_text(kind):
            remedy = "parse its text first, for example with json.loads"
        detail = f"{name}: {kind} is not a type of lists; {remedy}"
        raise InvalidEventError("wrong_type", detail)
    values = column.flatten()
    if values.null_count or (column.null_count and not optional):
        wrong = "is not a number" if optional else "is neither a list nor an id; use an empty list"
        detail = f"{name}: null {wrong}"
        raise InvalidEventError("wrong_type", detail)
    if column.null_count:
        lengths = [0 if row is None else len(row) for row in column.to_pylist()]
        return _column(name, values, np.cumsum([0, *lengths]))
    if not fixed:
        offsets = _numbers(column.offsets).astype(np.int64)
        return _column(name, values, offsets - offsets[0])
    if arrow.types.is_integer(kind.value_type):
        return _numbers(values).reshape(len(column), kind.list_size)
    return _column(name, values, np.arange(len(column) + 1) * kind.list_size)


def flat_column(array: Any) -> list[Any]:
    """An Arrow array of one value per event; timestamps as microseconds since the epoch."""
    values: list[Any] = in_microseconds(_user_column(array)).to_pylist()
    return values


def in_microseconds(column: Any) -> Any:
    """Timestamps and dates of pyarrow as microseconds since the epoch; others unchanged."""
    arrow, kind = _arrow(), column.type
    if arrow.types.is_date(kind):
        kind = arrow.timestamp("s" if kind.bit_width == 32 else "ms")
        column = column.cast(kind)
    if not arrow.types.is_timestamp(kind):
        return column
    try:
        # The cast may only drop nanoseconds.
        micro = column.cast(arrow.timestamp("us", kind.tz), safe=kind.unit != "ns")
    except arrow.ArrowInvalid as error:
        raise InvalidEventError("invalid_time", f"times: {error}") from error
    return micro.cast(arrow.int64())


def _column(name: str, values: Any, offsets: Any) -> IdColumn:
    """Strings are dictionary-encoded; numbers stay as they are."""
    arrow = _arrow()
    kind = values.type
    if arrow.types.is_dictionary(kind) and arrow.types.is_integer(kind.value_type):
        values, kind = values.cast(kind.value_type), kind.value_type
    if arrow.types.is_integer(kind) or arrow.types.is_floating(kind):
        return IdColumn(Ragged(_numbers(values), offsets))
    if arrow.types.is_null(kind):
        return IdColumn(Ragged(np.zeros(0, np.int64), offsets))
    is_dictionary = arrow.types.is_dictionary(kind)
    kind = kind.value_type if is_dictionary else kind
    if not _is_text(kind):
        raise InvalidEventError("invalid_id", f"{name}: ids are integers or strings, found {kind}")
    words = values if is_dictionary else values.dictionary_encode()
    indices = _numbers(words.indices).astype(np.int64)
    return IdColumn(Ragged(indices, offsets), words.dictionary.to_pylist())


def _numbers(values: Any) -> Array:
    """An Arrow array of numbers without nulls, not copied."""
    # Not `to_numpy`, because it imports pandas.
    numbers: Array = np.from_dlpack(values)
    return numbers


def _is_text(kind: Any) -> bool:
    types = _arrow().types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _normalize(column: Any) -> Any:
    """An array, or a chunked array, in a layout that pyarrow can index and encode."""
    arrow, kind, text = _arrow(), column.type, _arrow().large_string()
    if arrow.types.is_string_view(kind):
        return column.cast(text)
    if arrow.types.is_binary_view(kind):
        return column.cast(arrow.large_binary())
    is_encoded = arrow.types.is_run_end_encoded(kind)
    if not (is_encoded or _is_list(kind)):
        return column
    entries = kind.value_type
    is_view = arrow.types.is_list_view(kind) or arrow.types.is_large_list_view(kind)
    if not (is_encoded or is_view):
        if arrow.types.is_string_view(entries):
            fixed = arrow.types.is_fixed_size_list(kind)
            return column.cast(
                arrow.list_(text, kind.list_size) if fixed else arrow.large_list(text)
            )
        if not arrow.types.is_run_end_encoded(entries):
            return column
    if isinstance(column, arrow.ChunkedArray):
        chunks = column.chunks or [arrow.array([], kind)]
        return arrow.chunked_array([_normalize(chunk) for chunk in chunks])
    compute = import_extra("pyarrow.compute", "Arrow", "tables")
    if is_encoded:
        return _normalize(compute.run_end_decode(column))
    # Not a cast, which loses entries of list views in pyarrow 26.
    lengths = compute.fill_null(compute.list_value_length(column), 0).to_numpy()
    offsets = arrow.array(np.concatenate(([0], np.cumsum(lengths))), arrow.int64())
    values = _normalize(column.flatten())
    return arrow.LargeListArray.from_arrays(offsets, values, mask=column.is_null())


def _is_list(kind: Any) -> bool:
    types = _arrow().types
    offset_lists = (types.is_list, types.is_large_list, types.is_fixed_size_list)
    return any(of(kind) for of in (*offset_lists, types.is_list_view, types.is_large_list_view))


def _array(array: Any) -> Any:
    column = _user_column(array)
    chunked = isinstance(column, _arrow().ChunkedArray)
    column = _normalize(column)
    return column.combine_chunks() if chunked else column


def _user_column(array: Any) -> Any:
    arrow = _arrow()
    make = arrow.chunked_array if isinstance(array, ArrowStream) else arrow.array
    return _convert(array, make, "an array")


def _convert(data: Any, make: Callable[[Any], Any], what: str) -> Any:
    """Convert an object of another library with a function of pyarrow."""
    try:
        return make(data)
    except OverflowError as error:
        columns = data.items() if hasattr(data, "items") else [("", data)]
        raise InvalidEventError("invalid_id", beyond_64_bits(columns)) from error
    except (TypeError, ValueError, _arrow().ArrowException) as error:
        name = f"{type(data).__module__.partition('.')[0]}.{type(data).__name__}"
        detail = f"{name} is not {what} of Arrow, Polars or pandas: {error}"
        raise InvalidEventError("wrong_type", detail) from error


def row_name(row: int, first: int = 0) -> str:
    """The number, from 1, of a row of rows that start at `first`."""
    return f"row {first + row + 1}"


def beyond_64_bits(
    columns: Iterable[tuple[str, Iterable[Any]]],
    where: Callable[[int], str] = row_name,
) -> str:
    """Name the first integer of some columns that Arrow cannot hold, its row, and the remedy.

    `where`: names a row, from 0.
    """
    for name, values in columns:
        for row, value in enumerate(values):
            for number in value if isinstance(value, list | tuple) else (value,):
                if isinstance(number, int) and not -(1 << 63) <= number < 1 << 63:
                    at = f"{where(row)}, column {name!r}" if name else where(row)
                    return f"{at}: {number} is beyond signed 64-bit integers; give all ids as text"
    return "an integer is beyond signed 64-bit integers; give all ids as text"


def _arrow() -> Any:
    return import_extra("pyarrow", "Arrow", "tables")
