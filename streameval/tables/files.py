"""Parquet and CSV as Arrow tables, and their columns as ids, numbers, times and lists."""

from __future__ import annotations

import ast
import csv
import math
import re
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import PurePath
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from streameval.decoding.fields import TimeUnit
from streameval.decoding.invalid import Refusal
from streameval.decoding.times import microsecond_column, written_time
from streameval.errors import MissingExtraError, SourceError
from streameval.events.ragged import Array, IntArray
from streameval.sources.opening import content

Kind: TypeAlias = Literal["string", "integer"]
"""Of ids."""

_BLOCK = 1 << 20
_PARQUET = b"PAR1"
_DELIMITERS = "\t,;"
_SUFFIXES = frozenset({".parquet", ".pq", ".csv", ".tsv"})
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SEPARATORS = "|;,\t"
_BRACKETS = {"(": ")", "{": "}"}


def arrow(part: str = "") -> Any:
    """pyarrow, or one of its parts: "csv", "compute", "parquet".

    Raises:
        MissingExtraError: it cannot be imported.
    """
    try:
        return import_module(f"pyarrow.{part}" if part else "pyarrow")
    except ImportError as error:
        raise MissingExtraError("reading parquet and CSV files", "parquet", error) from error


def is_table(path: str) -> bool:
    """Whether a file's name says that it holds a table, as parquet or CSV.

    Example:
        >>> is_table("events.parquet"), is_table("events.csv.gz"), is_table("events.ndjson")
        (True, True, False)
    """
    return _suffix(path) in _SUFFIXES


class Column(NamedTuple):
    """One column of a file.

    Attributes:
        table: where it is from.
        name: of the column.
        values: Arrow array.
    """

    table: Table
    name: str
    values: Any

    def error(self, row: int, problem: str, remedy: str) -> SourceError:
        """What to tell of the value in a row; rows count from 0."""
        where = f"{self.table.place(row)}, column {self.name!r}"
        return SourceError(self.table.path, f"{where}: {problem}", remedy)


class Table(NamedTuple):
    """The content of a file.

    Attributes:
        path: of the file.
        content: Arrow table; columns of a text file are all of strings.
        names: of the columns, in their order.
        text: the bytes of a text file; None of parquet.
    """

    path: str
    content: Any
    names: Sequence[str]
    text: bytes | None

    def column(self, name: str, remedy: str) -> Column:
        """The column of that name.

        Raises:
            SourceError: there is none, or more than one; `remedy` says what to do.
        """
        if self.names.count(name) != 1:
            raise SourceError(self.path, f"no column {name!r}; {self.listing}", remedy)
        found = self.content[name].combine_chunks()
        if arrow().types.is_dictionary(found.type):
            found = found.cast(found.type.value_type)
        return Column(self, name, found)

    @property
    def listing(self) -> str:
        """The names of the columns, for an error."""
        return f"its columns: {', '.join(self.names[:20])}"

    def place(self, row: int) -> str:
        """Where a row is in the file: its line in text, its number in parquet, both from 1."""
        if self.text is None:
            return f"row {row + 1}"
        quoted, records = False, -1
        for number, line in enumerate(re.split(rb"\r\n|\n|\r", self.text), 1):
            if not quoted and line:
                if records == row:
                    return f"line {number}"
                records += 1
            quoted ^= line.count(b'"') % 2 == 1
        return f"row {row + 1}"


def table_of(path: str) -> Table:
    """The table in a file.

    Args:
        path: parquet, or text: its first line names the columns, separated by tabs, commas or
            semicolons; RecBole's atomic files too. Plain, .gz or .zst; "-" is standard input.

    Raises:
        SourceError: it cannot be read.
        MissingExtraError: pyarrow is not installed.
    """
    arrow()
    found = b"".join(content(path))
    if not found:
        raise SourceError(path, "the file is empty", "give one whose first line names the columns")
    try:
        # Without threads: one that still starts when a short process ends aborts it at times.
        if found.startswith(_PARQUET):
            file = arrow("parquet").ParquetFile(arrow().BufferReader(found), pre_buffer=False)
            table = file.read(use_threads=False)
            table.validate(full=True)
            return Table(path, table, table.column_names, None)
        _refuse_binary(path, found)
        return _text(path, found.removeprefix(_BYTE_ORDER_MARK))
    except (arrow().ArrowException, OSError, ValueError, csv.Error) as error:
        problem = " ".join(str(error).split())
        remedy = "give a parquet file, or CSV in UTF-8 with equally many fields in every line"
        raise SourceError(path, problem, remedy) from error


def _refuse_binary(path: str, found: bytes) -> None:
    if _suffix(path) in {".parquet", ".pq"}:
        remedy = "write the file again, or rename it if it is CSV"
        raise SourceError(path, "does not begin like a parquet file", remedy)
    try:
        found.decode()
    except UnicodeDecodeError as error:
        line = found.count(b"\n", 0, error.start) + 1
        problem = f"line {line}: byte 0x{found[error.start]:02x} is not UTF-8"
        raise SourceError(path, problem, "save the file as UTF-8 text") from None


def _text(path: str, found: bytes) -> Table:
    header = found.partition(b"\n")[0].decode().removesuffix("\r")
    delimiter = next((each for each in _DELIMITERS if each in header), ",")
    names = next(csv.reader([header], delimiter=delimiter), [])
    reader = arrow("csv")
    table = reader.read_csv(
        arrow().BufferReader(found),
        reader.ReadOptions(use_threads=False, block_size=max(_BLOCK, len(found))),
        reader.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        reader.ConvertOptions(column_types=dict.fromkeys(names, arrow().large_string())),
    )
    return Table(path, table, table.column_names, found)


def _suffix(path: str) -> str:
    name = PurePath(path)
    return (name.with_suffix("") if name.suffix in {".gz", ".zst"} else name).suffix


def ids_of(column: Column) -> Any:
    """A column of ids as an Arrow array of integers or of strings.

    Raises:
        SourceError: it holds something else, or a row has none.
    """
    array = users_of(column)
    missing = arrow("compute").is_null(array)
    if arrow("compute").any(missing).as_py():
        row = missing.to_pylist().index(True)
        raise column.error(row, "no id", "every row needs one; correct the file")
    return array


def users_of(column: Column) -> Any:
    """The same of a column in which rows may have no id: null, as is empty text.

    Raises:
        SourceError: it holds something else.
    """
    types, array, compute = arrow().types, column.values, arrow("compute")
    if types.is_string(array.type):
        array = array.cast(arrow().large_string())
    if not (types.is_integer(array.type) or types.is_large_string(array.type)):
        problem = f"column {column.name!r} holds {array.type}"
        raise SourceError(column.table.path, problem, "write ids as integers or as text")
    if types.is_large_string(array.type):
        nothing = arrow().scalar(None, array.type)
        array = compute.if_else(compute.equal(array, ""), nothing, array)
    return array


def numbers_of(column: Column) -> Array:
    """A column of finite numbers, from numbers or from text; shape (rows,).

    Raises:
        SourceError: a row has none.
    """
    array, compute, wanted = column.values, arrow("compute"), arrow().float64()
    try:
        found = array.cast(wanted)
    except (arrow().ArrowInvalid, arrow().ArrowNotImplementedError):
        found = arrow().array([finite(value) for value in array.to_pylist()], wanted)
    valid = compute.fill_null(compute.is_finite(found), fill_value=False)
    if not compute.all(valid).as_py():
        row = valid.to_pylist().index(False)
        problem = f"found {array[row].as_py()!r:.40}, which is not a finite number"
        raise column.error(row, problem, "correct it, or name another column")
    values: Array = found.to_numpy(zero_copy_only=False)
    return values


def finite(value: object) -> float | None:
    """The finite number that a value is or spells; None where it is none."""
    try:
        found = float(str(value))
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def times_of(column: Column, unit: TimeUnit) -> IntArray:
    """A column of event time, microseconds since the epoch; shape (rows,).

    Args:
        column: Arrow timestamps (UTC where they name no zone) or dates, whatever the unit;
            numbers or text of the unit.
        unit: how numbers and text are written.

    Raises:
        SourceError: a row has none, or one of another unit.
    """
    types, array = arrow().types, column.values
    if types.is_timestamp(array.type) or types.is_date(array.type):
        if array.null_count:
            row = array.is_null().to_pylist().index(True)
            raise column.error(row, "no time", "every row needs one; correct the file")
        moments = array.cast(arrow().timestamp("us"), safe=False).cast(arrow().int64())
        found: IntArray = moments.to_numpy()
        return found
    text = types.is_string(array.type) or types.is_large_string(array.type)
    written = []
    for row, value in enumerate(array.to_pylist()):
        number = finite(value) if text and unit != "iso8601" else None
        # Text of digits is exact as an integer, which a float of microseconds would not be.
        exact = int(value) if number is not None and str(value).strip().isdecimal() else number
        try:
            written.append(written_time(value if exact is None else exact, unit, column.name))
        except Refusal as refusal:
            remedy = "say how time is written with --time-unit (s, ms, us or iso8601)"
            raise column.error(row, str(refusal), remedy) from None
    return microsecond_column(written, unit)


def of_one_kind(arrays: Sequence[Any], wanted: Kind = "string") -> list[Any]:
    """Arrays of ids, all of integers or all of strings: integers only where each of them is.

    Args:
        arrays: of integers or of strings each.
        wanted: "integer" makes integers of strings of digits, too.

    Raises:
        SourceError: a string is no integer, where integers are wanted.
    """
    if all(arrow().types.is_integer(array.type) for array in arrays):
        return list(arrays)
    kind = arrow().int64() if wanted == "integer" else arrow().large_string()
    try:
        return [array.cast(kind) for array in arrays]
    except arrow().ArrowInvalid as error:
        remedy = 'leave out ids = "integer", or give integers'
        raise SourceError("ids", " ".join(str(error).split()), remedy) from error


class Separator(NamedTuple):
    """What stands between the entries of lists that are written as text.

    Attributes:
        text: the separator; None means "|" in a column that holds one, white space otherwise.
        insisted: whether it was named for this column, so that no cell of it is doubted.
    """

    text: str | None = None
    insisted: bool = False


def lists_of(column: Column, separator: Separator, *, numeric: bool) -> Any:
    r"""A column of lists as an Arrow array of lists: from lists, or from text.

    Text holds JSON lists ('["a", 7]'; those of Python are read too), or entries between
    separators. A cell that looks like a list in another form than its column is refused: read
    as it stands, it would be one id that matches nothing.

    Args:
        column: of lists or text.
        separator: between entries.
        numeric: whether entries are numbers, not ids; a blank cell is then null, not empty.

    Raises:
        SourceError: it is neither lists nor text, a cell looks like a list of another form, or
            an entry is none.
    """
    types, kind = arrow().types, column.values.type
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return column.values
    if not (types.is_string(kind) or types.is_large_string(kind)):
        remedy = "give a column of lists, or of ids separated by spaces or |"
        raise SourceError(column.table.path, f"column {column.name!r} holds {kind}", remedy)
    texts = [(text or "").strip() for text in column.values.to_pylist()]
    split = _splitter(column, texts, separator)
    entry: Callable[[Any], Any] = _number if numeric else _id
    blank: list[Any] | None = None if numeric else []
    lists = []
    for row, text in enumerate(texts):
        try:
            lists.append([entry(part) for part in split(row, text)] if text else blank)
        except (ValueError, OverflowError):
            what = "numbers" if numeric else "ids"
            remedy = f"write {what} between separators, or a JSON list of {what}"
            raise column.error(row, f"found {text!r:.60}", remedy) from None
    return arrow().array(lists, None if numeric else arrow().large_list(arrow().large_string()))


def _splitter(
    column: Column, texts: Sequence[str], separator: Separator
) -> Callable[[int, str], Sequence[Any]]:
    """How the cells of a column come apart: of a row, and its text that is not blank."""
    if separator.insisted:
        return lambda _row, text: text.split(separator.text)
    if any(map(_is_bracketed, texts)):
        return lambda row, text: _listed(column, row, text)
    given = separator.text or ("|" if any("|" in text for text in texts) else None)
    found = given is not None and any(given in text for text in texts)
    # A space inside of a cell is doubtful but where other cells show that the caller's
    # separator is the right one: it may be part of an id, as in a title.
    doubted = _SEPARATORS if found and separator.text else f"{_SEPARATORS} "

    def split(row: int, text: str) -> Sequence[str]:
        parts = text.split(given)
        strange = _other_separator(text, parts, given, doubted)
        if strange is not None:
            raise _doubtful(column, row, text, strange, given)
        return parts

    return split


def _is_bracketed(text: str) -> bool:
    return text.startswith("[") and text.endswith("]")


def _listed(column: Column, row: int, text: str) -> list[Any]:
    """The entries of a JSON list, or of a list as Python writes it."""
    found: Any = None
    if _is_bracketed(text):
        try:
            found = msgspec.json.decode(text)
        except msgspec.DecodeError:
            found = _literal(text)
    if not isinstance(found, list):
        remedy = 'other cells of the column are JSON lists; write this one like ["a", "b"], too'
        raise column.error(row, f"found {text!r:.60}, which is not a JSON list", remedy)
    return found


def _literal(text: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return None


def _other_separator(
    text: str, parts: Sequence[str], separator: str | None, doubted: str
) -> str | None:
    """Another separator that a cell seems to have; "" where it seems to be in brackets."""
    if _BRACKETS.get(text[0]) == text[-1]:
        return ""
    if separator is None:
        return next((each for each in _SEPARATORS if each in text and not each.isspace()), None)
    if len(parts) == 1:
        return next((each for each in doubted if each in text), None)
    ends = {part.strip()[at] for part in parts if part.strip() for at in (0, -1)}
    return next((each for each in _SEPARATORS if each in ends and each != separator), None)


def _doubtful(
    column: Column, row: int, text: str, other: str, separator: str | None
) -> SourceError:
    if not other:
        problem = f"found {text!r:.60}, which looks like a list in brackets"
        return column.error(row, problem, 'write lists as JSON, like ["a", "b"]')
    problem = f"found {text!r:.60}, which looks like a list separated by {other!r}"
    insist = f"--separator {_shell(column.name, separator or ' ')} where it is part of an id"
    return column.error(
        row, problem, f"read it with --separator {_shell(column.name, other)}, or {insist}"
    )


def _shell(name: str, separator: str) -> str:
    """As a POSIX shell takes it."""
    return f"$'{name}=\\t'" if separator == "\t" else f"'{name}={separator}'"


def _id(entry: Any) -> str:
    if isinstance(entry, str) and entry.strip():
        return entry.strip()
    if type(entry) is int:
        return str(entry)
    raise ValueError


def _number(entry: Any) -> float:
    if isinstance(entry, str):
        return int(entry) if entry.strip().isdecimal() else float(entry)
    if type(entry) is not int and type(entry) is not float:
        raise ValueError
    return entry
