"""Files and frames of rows as blocks of Arrow columns: CSV, parquet, Arrow and JSON lines.

Functions raise SourceError for a file that cannot be read, and InputError for one whose form cannot
be detected.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from io import StringIO
from itertools import chain, islice
from pathlib import PurePath
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

from streameval.evaluation.arguments import Form, InputError, Options, Setting
from streameval.evaluation.quotes import UNIT_SEPARATOR, QuoteCheck, WrongQuote, has_quotes
from streameval.events.arrow import beyond_64_bits, normalize_table, refuse_bombs, row_name
from streameval.events.errors import ProblemError, SourceError
from streameval.events.extras import import_extra
from streameval.events.spelling import suggestion
from streameval.sources.files import lines
from streameval.sources.opening import content, size
from streameval.sources.opening import read_all as whole_content
from streameval.sources.remote import is_remote, object_reader

ROWS: Final = 1 << 16
"""Rows read and counted together: fewer cost more per row, more need more memory."""

_VALUES: Final = 1 << 22
"""Values in a column of rows that are read together, as lists may be long."""

_BLOCK: Final = 1 << 20
_PARQUET: Final = b"PAR1"
_SUFFIXES: Final[dict[str, Form]] = {
    **dict.fromkeys((".csv", ".tsv", ".tab", ".inter", ".dat", ".data"), "csv"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".feather", ".arrow", ".ipc"), "arrow"),
}
TABLES: Final = (*_SUFFIXES,)
"""Endings of the names of tables."""

LINES: Final = (".ndjson", ".jsonl", ".json")
_PICKLES: Final = (".pkl", ".pickle", ".joblib")
_NOT_READ: Final = (".xlsx", ".xls", ".h5", ".hdf5", ".npz", ".npy")

MIND: Final = ("impression", "user", "time", "history", "impressions")
"""The columns of MIND's behaviors.tsv, which has no header."""

_MIND_IMPRESSIONS: Final = re.compile(r"\s*\S+-[01](\s+\S+-[01])*\s*")
"""What is in the last of them: N5-0 N6-1."""


_HEADLINE: Final = re.compile(rb"^(\d+):\r?$\n?", re.MULTILINE)
"""The item of the rows below it, in Netflix' files: 1: and then user,rating,date."""

_BELOW_HEADLINES: Final = {2: ("item", "user"), 3: ("item", "user", "time")}
"""The columns of their rows by number, with that of the headline; ratings are in rows of four."""


def arrow(part: str = "") -> Any:
    """pyarrow, or one of its parts: "csv", "compute", "parquet"."""
    return import_extra(
        f"pyarrow.{part}".rstrip("."), "evaluating tables, frames and mappings", "tables"
    )


class EmptyFileError(ProblemError):
    """A file has no bytes; as one with columns alone, it has no event."""


def _empty(path: str) -> EmptyFileError:
    return EmptyFileError(path, "the file is empty", "it has neither columns nor events")


class Frame(NamedTuple):
    """Rows that a caller has, as an Arrow table.

    Attributes:
        idle: of a caller's lists, those without an entry, which have no row; None without.
        has_usual_names: whether the columns were not named by a caller.
    """

    name: str
    rows: Any
    idle: Any = None
    has_usual_names: bool = False


TableInput: TypeAlias = str | Frame
"""The path of a file, or a caller's rows."""


def table_name(table: TableInput) -> str:
    """The path, or the name of the frame."""
    return table if isinstance(table, str) else table.name


class TableColumn(NamedTuple):
    """One column of some rows, as an Arrow array; `where` names the file and the line of a row."""

    path: str
    name: str
    values: Any
    where: Callable[[int], str]

    def error(self, row: int, problem: str, remedy: str, /, **settings: Setting) -> InputError:
        """An error about the value in a row, from 0; the remedy may name settings."""
        problem = f"{self.where(row)}, column {self.name!r}: {problem}"
        return InputError("{problem}; " + remedy + ".", problem=problem, **settings)


class RowBlock(NamedTuple):
    """Some rows of a table, an Arrow table of the requested columns.

    Attributes:
        names: names of all columns of the file, in order.
        first: index in the file of the first row.
        header: lines of text before the first row; None if the file is not text.
        has_quotes: whether quotes enclose fields of text, which may have several lines.
        used: names of the settings of text that decided how it is read.
    """

    path: str
    rows: Any
    names: Sequence[str]
    first: int = 0
    header: int | None = None
    has_quotes: bool = False
    used: Collection[str] = ()

    def where(self, row: int) -> str:
        """The file, and the line of a row, from 0, in text, else its number, from 1."""
        at = self.first + row
        if self.header is None or size(self.path) is None:  # a pipe is not read again
            return f"{self.path}: row {at + 1}"
        quoted, before, text = False, at + self.header, whole_content(self.path)
        has_headlines = _HEADLINE.match(text) is not None
        for number, line in enumerate(re.split(rb"\r\n|\n|\r", text), 1):
            if not quoted and line and not (has_headlines and _HEADLINE.fullmatch(line)):
                if not before:
                    return f"{self.path}: line {number}"
                before -= 1
            quoted ^= self.has_quotes and line.count(b'"') % 2 == 1
        return f"{self.path}: row {at + 1}"

    def column(self, name: str) -> TableColumn:
        """The column of this name."""
        values = decode_array(self.rows[name].combine_chunks())
        return TableColumn(self.path, name, values, self.where)


def decode_array(values: Any) -> Any:
    """An Arrow array without a dictionary and without views, which Arrow can hardly compute on.

    A map of items and their numbers becomes a list of structs.
    """
    types = arrow().types
    if types.is_map(values.type):
        kind = arrow().struct([("item", values.type.key_type), ("rating", values.type.item_type)])
        return values.cast(arrow().list_(kind))
    if types.is_dictionary(values.type):
        values = decode_array(values.dictionary).take(values.indices)
    small = (types.is_string, types.is_string_view, types.is_null)
    return values.cast(arrow().large_string()) if any(of(values.type) for of in small) else values


def require(
    path: str, name: str, names: Sequence[str], remedy: str = "", /, **values: Setting | str
) -> None:
    """Refuse a file without exactly one column of this name."""
    count = names.count(name)
    if count != 1:
        problem = f"{count} columns {name!r}" if count else f"no column {name!r}"
        remedy = "remove all but one of them" if count else remedy
        about = f"{path}: {problem}; {listing(names)}"
        hint = "" if count else suggestion(name, names)
        raise InputError("{about}; " + remedy + ".{hint}", about=about, hint=hint, **values)


def listing(names: Sequence[str]) -> str:
    """The names of some columns, for messages."""
    return f"its columns: {', '.join(map(str, names[:20]))}"


def suffix_of(path: str) -> str:
    """The extension of a file without that of its compression.

    Example:
        >>> suffix_of("s3://shop/EVENTS.CSV.gz"), suffix_of("ml-100k/u.data"), suffix_of("events")
        ('.csv', '.data', '')
    """
    name = PurePath(path)
    return (name.with_suffix("") if name.suffix in {".gz", ".zst"} else name).suffix.lower()


def is_table(path: str) -> bool:
    """True if a file has columns by its name."""
    return suffix_of(path) in _SUFFIXES


def holds_rows(path: str) -> bool:
    """True if a file has events or rows, by its name."""
    return is_table(path) or suffix_of(path) in LINES


class TablePart(NamedTuple):
    """Rows of a table that one process reads at once.

    Attributes:
        size: approximate size in bytes; 0 if it is unknown.
        groups: row groups of parquet; empty for the whole table.
        first: index in the file of the first row.
        kind: Arrow's schema; None for text, whose columns are all strings.
    """

    table: TableInput
    size: int
    groups: tuple[int, ...] = ()
    first: int = 0
    kind: Any = None

    @property
    def path(self) -> str:
        """The path, or the name of the frame."""
        return table_name(self.table)


def form_of(path: str, options: Options) -> Form:
    """The form of a file: the requested one, else that of its name; text otherwise."""
    if options.form not in (None, "table"):
        return options.form
    suffix = suffix_of(path)
    if suffix in (*_PICKLES, *_NOT_READ):
        is_pickle = suffix in _PICKLES
        why = "a pickle runs code when it is read" if is_pickle else f"{suffix} is not read"
        raise InputError(
            "{problem}; load it yourself and give the frame, mapping or matrix, or write it as "
            "parquet.",
            problem=f"{path}: {why}",
        )
    return "json" if suffix in LINES else _SUFFIXES.get(suffix, "csv")


def parts_of(table: TableInput, options: Options) -> list[TablePart]:
    """All rows of a table: a part for each row group of parquet, else one."""
    if isinstance(table, Frame):
        return [TablePart(table, 0, kind=table.rows.schema)]
    length, form = size(table), form_of(table, options)
    if length == 0:
        raise _empty(table)
    if form == "arrow":
        with _explain_errors(table), _arrow_file(table) as file:
            schema = normalize_table(file.schema.empty_table()).schema
            return [TablePart(table, length or 0, kind=schema)]
    if form != "parquet" or length is None:
        return [TablePart(table, length or 0)]
    with _parquet(table) as file:
        metadata, kind = file.metadata, file.schema_arrow
    parts, first = [], 0
    for group in range(metadata.num_row_groups):
        rows = metadata.row_group(group).num_rows
        bytes_of_group = length * rows // max(1, metadata.num_rows)
        parts.append(TablePart(table, bytes_of_group, (group,), first, kind))
        first += rows
    return parts or [TablePart(table, length, kind=kind)]


def joined_parts(parts: Sequence[TablePart]) -> TablePart:
    """The parts of a file as one."""
    groups = tuple(group for part in parts for group in part.groups)
    return parts[0]._replace(groups=groups, size=sum(part.size for part in parts))


ColumnSelection: TypeAlias = Callable[[str, Sequence[str]], Mapping[str, bool]]
"""The columns to read, from the path and the names of all columns; raises if some are missing.

Text of those with True is read as codes, which takes less memory where values repeat.
"""


def blocks_of(part: TablePart, select: ColumnSelection, options: Options) -> Iterator[RowBlock]:
    """The rows of a part; at least one block, which may have no rows."""
    table = part.table

    def columns_read(names: Sequence[str]) -> dict[str, bool]:
        columns = select(part.path, names)
        return {name: columns[name] for name in names if name in columns}

    if isinstance(table, Frame):
        names = table.rows.column_names
        yield RowBlock(table.name, table.rows.select([*columns_read(names)]), names)
        return
    form = form_of(table, options)
    if form == "parquet":
        yield from _parquet_blocks(part, columns_read)
    elif form == "arrow":
        yield from _arrow_blocks(table, columns_read)
    elif form == "json":
        yield from _json_blocks(table, columns_read)
    else:
        yield from _text_blocks(table, columns_read, options)


_ColumnsOf: TypeAlias = Callable[[Sequence[str]], Mapping[str, bool]]
"""The columns to read, from the names of all columns, in their order; see `ColumnSelection`."""


@contextmanager
def _explain_errors(path: str) -> Iterator[None]:
    try:
        yield
    except (arrow().ArrowException, OSError, ValueError) as error:
        problem = " ".join(str(error).split())
        remedy = "write the file again, or say what it is with form="
        raise SourceError(path, problem, remedy) from error


def _source(path: str) -> Any:
    if path.endswith((".gz", ".zst")) or size(path) is None:
        return arrow().BufferReader(whole_content(path))
    return object_reader(path) if is_remote(path) else arrow().OSFile(path)


@contextmanager
def _parquet(path: str, *, coded: bool = False) -> Iterator[Any]:
    """An open parquet file, for reading in parts; `coded`: text as the codes that the file has."""
    with _explain_errors(path):
        source = _source(path)
        if source.read(len(_PARQUET)) != _PARQUET:
            remedy = "write the file again, or rename it if it is CSV"
            raise SourceError(path, "does not begin like a parquet file", remedy)
        opened = partial(arrow("parquet").ParquetFile, source, pre_buffer=is_remote(path))
        file = opened()
        refuse_bombs(path, file.metadata)
        if coded:
            leaves = map(file.schema.column, range(len(file.schema.names)))
            texts = [leaf.path for leaf in leaves if leaf.logical_type.type == "STRING"]
            file = opened(metadata=file.metadata, read_dictionary=texts)
        with source, file:
            yield file


def _parquet_blocks(part: TablePart, columns_read: _ColumnsOf) -> Iterator[RowBlock]:
    with _parquet(part.path, coded=True) as file:
        names, first = file.schema_arrow.names, part.first
        groups = part.groups or range(file.metadata.num_row_groups)
        columns = [*columns_read(names)]
        if not len(groups):
            yield RowBlock(part.path, file.schema_arrow.empty_table().select(columns), names)
        # One by one, as each has its codes. Without threads, because one that starts at the end of
        # a short process may abort it.
        for group in groups:
            rows = _rows_at_once(file.metadata.row_group(group))
            for batch in file.iter_batches(rows, [group], columns, use_threads=False):
                batch.validate(full=True)
                yield RowBlock(part.path, arrow().Table.from_batches([batch]), names, first)
                first += batch.num_rows


def _rows_at_once(group: Any) -> int:
    """Number of rows of a row group with at most `_VALUES` values in a column."""
    values: int = max((group.column(at).num_values for at in range(group.num_columns)), default=0)
    rows: int = group.num_rows
    return max(1, min(ROWS, _VALUES * rows // max(1, values)))


@contextmanager
def _arrow_file(path: str) -> Iterator[Any]:
    """An open Arrow file: of random access (feather), or a stream."""
    with _source(path) as source:
        try:
            yield arrow("ipc").open_file(source)
        except arrow().ArrowInvalid:
            source.seek(0)
            yield arrow("ipc").open_stream(source)


def _arrow_blocks(path: str, columns_read: _ColumnsOf) -> Iterator[RowBlock]:
    with _explain_errors(path), _arrow_file(path) as file:
        names, first = file.schema.names, 0
        columns = [*columns_read(names)]
        stored = getattr(file, "num_record_batches", None)
        batches = file if stored is None else map(file.get_batch, range(stored))
        yield RowBlock(path, normalize_table(file.schema.empty_table().select(columns)), names)
        for batch in batches:
            batch.validate(full=True)
            rows = normalize_table(arrow().Table.from_batches([batch]).select(columns))
            yield RowBlock(path, rows, names, first)
            first += batch.num_rows


def _json_blocks(path: str, columns_read: _ColumnsOf) -> Iterator[RowBlock]:
    """JSON lines of rows: an object each."""
    first, decoder = 0, msgspec.json.Decoder(dict[str, Any])
    records = lines(path)
    while part := list(islice(records, ROWS)):
        rows = []
        for number, line in enumerate(part, first + 1):
            try:
                rows.append(decoder.decode(line))
            except msgspec.MsgspecError as error:
                remedy = 'give an object per line, like {"user": 1, "item": 2}'
                raise SourceError(path, f"row {number}: {error}", remedy) from error
        names = list(dict.fromkeys(name for row in rows for name in row))
        columns = columns_read(names)
        cells = {name: [row.get(name) for row in rows] for name in columns}
        try:
            with _explain_errors(path):
                arrays = {name: arrow().array(values) for name, values in cells.items()}
        except OverflowError as error:
            why = beyond_64_bits(cells.items(), partial(row_name, first=first))
            problem, _, remedy = why.partition("; ")
            raise SourceError(path, problem, remedy) from error
        yield RowBlock(path, arrow().table(arrays), names, first)
        first += len(rows)
    if not first:
        raise _empty(path)


class _Text:
    """The content of a text file, as Arrow reads it from Python.

    `delimiter`: one of several characters is replaced by a single one.

    Attributes:
        head: the first bytes.
        has_headlines: whether rows follow a line with their item, which becomes their first field.
        check: of the quotes, if they enclose fields.
        wrong: the quote that it found, which ends reading with a ValueError.
    """

    closed = False
    check: QuoteCheck | None = None
    wrong: WrongQuote | None = None

    def __init__(self, path: str, delimiter: str | None) -> None:
        self._blocks = content(path)
        first = next(self._blocks, b"")
        while b"\n" not in first and (more := next(self._blocks, b"")):
            first += more
        self.has_headlines = _HEADLINE.match(first) is not None
        self._blocks = chain([first], self._blocks)
        if self.has_headlines:
            self._blocks = _with_items(self._blocks)
        self._long = delimiter.encode() if delimiter and len(delimiter) > 1 else None
        self._rest = self._carry = b""
        self.head = self.read(_BLOCK).removeprefix(b"\xef\xbb\xbf")  # a byte order mark
        self._rest = self.head + self._rest

    def read(self, size: int = -1) -> bytes:
        is_end = False
        while size < 0 or len(self._rest) < size:
            block = next(self._blocks, None)
            if block is None:
                self._rest, self._carry, is_end = self._rest + self._carry, b"", True
                break
            if self._long is not None:
                block = (self._carry + block).replace(self._long, UNIT_SEPARATOR.encode())
                # A delimiter may be cut by the end of a block.
                cut = range(len(self._long) - 1, 0, -1)
                length = next((n for n in cut if block.endswith(self._long[:n])), 0)
                block, self._carry = block[: len(block) - length], block[len(block) - length :]
            self._rest += block
        end = len(self._rest) if size < 0 else size
        if end > 1 and self._rest[end - 1 : end] == b"\r":
            end -= 1  # At the start of a block behind it, Arrow drops \n, even in quotes.
        piece, self._rest = self._rest[:end], self._rest[end:]
        if self.check is not None:
            self.wrong = self.check.add(piece) or (self.check.end() if is_end else None)
            if self.wrong is not None:
                raise ValueError(self.wrong.text)
        return piece

    def close(self) -> None:
        self.closed = True


def _with_items(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Rows below headlines, each with the item of its headline as its first field."""
    item = rest = b""
    for block in chain(blocks, [b"\n"]):
        text = rest + block
        end = text.rfind(b"\n") + 1
        text, rest = text[:end], text[end:]
        # Between the texts are the items.
        below, *others = _HEADLINE.split(text)
        for rows, following in zip([below, *others[1::2]], [*others[::2], None], strict=True):
            lines_of = rows.splitlines(keepends=True)
            yield b"".join([item + b"," + line for line in lines_of if line.strip()])
            item = item if following is None else following


def _text_blocks(path: str, columns_read: _ColumnsOf, options: Options) -> Iterator[RowBlock]:
    """Rows of text, whose columns are all strings: 007 is not an integer."""
    text = _Text(path, options.delimiter)
    if not text.head:
        raise _empty(path)
    if text.head.startswith(_PARQUET):
        remedy = f"rename it to {PurePath(path).stem}.parquet, or give form='parquet'"
        raise SourceError(path, "it is a parquet file", remedy)
    delimiter = _delimiter(text.head, options)
    first_row = _first_row(text.head, delimiter)
    named = MIND if options.form == "mind" else options.header
    if text.has_headlines:
        named = _BELOW_HEADLINES.get(len(first_row), ("item", "user", "rating", "time"))
    # Names that are in the first row are for the other file: this one has its own.
    header = 0 if named is not None and {*named}.isdisjoint(first_row) else 1
    if header:
        _check_header(path, first_row, delimiter)
    names = first_row if header or named is None else list(named)
    used = [] if header or named is not options.header else ["header"]
    if delimiter in (options.delimiter, UNIT_SEPARATOR):
        used.append("delimiter")
    quoted = has_quotes(delimiter)
    text.check = QuoteCheck(delimiter) if quoted else None
    parser, wrong = arrow("csv"), list[Any]()

    def refuse(row: Any) -> str:
        wrong.append(row)
        return "error"

    first, columns, text_type = 0, columns_read(names), arrow().large_string()
    try:
        rows = parser.open_csv(
            arrow().PythonFile(text, "r"),
            parser.ReadOptions(
                use_threads=False, block_size=_BLOCK, column_names=None if header else names
            ),
            parser.ParseOptions(
                delimiter=delimiter,
                newlines_in_values=quoted,
                quote_char='"' if quoted else False,
                invalid_row_handler=refuse,
            ),
            parser.ConvertOptions(
                column_types={
                    name: arrow().dictionary(arrow().int32(), text_type) if coded else text_type
                    for name, coded in columns.items()
                },
                include_columns=[*columns],
            ),
        )
        empty = rows.schema.empty_table()
        yield RowBlock(path, empty, names, header=header, has_quotes=quoted, used=used)
        for batch in rows:
            block = arrow().Table.from_batches([batch])
            yield RowBlock(path, block, names, first, header, has_quotes=quoted)
            first += batch.num_rows
    except MemoryError:
        raise
    except (arrow().ArrowException, ValueError) as error:
        _refuse_bytes(path)
        is_long = "straddl" in str(error)
        if text.wrong is None and is_long and text.check is not None:
            text.wrong = text.check.open_quote
        if text.wrong is not None:
            raise _wrong_quote(path, text.wrong) from error
        if wrong:
            row = wrong[0]
            where = f"row {row.number}" if row.number is not None else "a row"
            fields = f"{row.actual_columns} fields, not {row.expected_columns}: {row.text!r:.60}"
            sign = repr(options.delimiter if delimiter == UNIT_SEPARATOR else delimiter)
            remedy = f"quote fields with {sign}" if quoted else f"remove {sign} from fields"
            other = ", or give {delimiter} and {header}."
            if options.form == "mind":
                remedy, other = "write MIND's fields between tabs", ", or leave out {form}."
            raise InputError(
                "{problem}; {remedy}" + other,
                problem=f"{path}: {where} has {fields}",
                remedy=remedy,
            ) from error
        problem = " ".join(str(error).split())
        if is_long:
            problem = f"a row is longer than {_BLOCK:,} bytes"
        remedy = "give a parquet file, or CSV in UTF-8 with the same number of fields in each line"
        raise SourceError(path, problem, remedy) from error


def _wrong_quote(path: str, wrong: WrongQuote) -> InputError:
    problem = "a quote is not closed" if wrong.is_open else "text follows a quoted field"
    return InputError(
        "{problem}; write a quote inside a field twice, in quotes, or write the file with tabs, "
        "where quotes are ordinary text.",
        problem=f"{path}: line {wrong.line}: {problem}: {wrong.text!r:.60}",
    )


def _refuse_bytes(path: str) -> None:
    """Refuse a file that is not UTF-8, naming the line and the byte; a pipe is not read again."""
    for number, line in enumerate(lines(path) if size(path) is not None else (), 1):
        try:
            line.decode()
        except UnicodeDecodeError as error:
            problem = f"line {number}: byte 0x{line[error.start]:02x} is not UTF-8"
            raise SourceError(path, problem, "save the file as UTF-8 text") from None


def _delimiter(head: bytes, options: Options) -> str:
    if options.form == "mind":
        return "\t"
    if options.delimiter is not None:
        named = options.delimiter if len(options.delimiter) == 1 else UNIT_SEPARATOR
        # The other file may have another one.
        if named.encode() in head.split(b"\n", 1)[0]:
            return named
    fields = {sign: len(_first_row(head, sign)) for sign in "\t,;"}
    # A field may have another sign, such as a decimal comma beside semicolons.
    as_named = [sign for sign in fields if fields[sign] == len(options.header or ()) > 1]
    return next(chain(as_named, (sign for sign in fields if fields[sign] > 1)), ",")


def _first_row(head: bytes, delimiter: str) -> list[str]:
    """The fields of the first row that is not empty, with line ends of any system."""
    text = StringIO(head.decode("utf-8", "surrogateescape"), newline="")
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if has_quotes(delimiter) else csv.QUOTE_NONE
    rows = csv.reader(text, delimiter=delimiter, quoting=quoting)
    try:
        return next(filter(None, rows), [])
    except csv.Error:
        return []


def _check_header(path: str, names: Sequence[str], delimiter: str) -> None:
    """Refuse a first row that is not UTF-8, or has numbers."""
    if any("\udc80" <= char <= "\udcff" for name in names for char in name):
        _refuse_bytes(path)
    if any(finite_or_none(part) is not None for name in names for part in name.split("::")):
        first = delimiter.join(names)
        if delimiter == "\t" and len(names) == len(MIND) and _MIND_IMPRESSIONS.fullmatch(names[-1]):
            raise InputError(
                "{problem}, is like MIND's; read it with {form=mind}.",
                problem=f"{path}: the first line, {first[:60]!r}",
            )
        raise InputError(
            "{problem}, has numbers, not names of columns; name the columns with "
            + ("{delimiter=::} and " if "::" in first else "")
            + "{header=user,item,rating,time}.",
            problem=f"{path}: the first line, {first[:60]!r}",
        )


def finite_or_none(value: object) -> float | None:
    """A finite number from a number or its text; None if it is not one."""
    try:
        number = float(str(value))
    except ValueError:
        return None
    return number if math.isfinite(number) else None
