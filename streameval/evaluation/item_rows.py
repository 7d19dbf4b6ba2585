"""Tables of users and items, one side of a pair: recommendations, or the truth.

Functions raise InputError for a table that can be read in two ways, and name the setting that
decides.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import accumulate
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np

from streameval.decoding.fields import TimeUnit
from streameval.evaluation.arguments import InputError, Named, Note, Options, Setting, column
from streameval.evaluation.coded import encode, merge_coded
from streameval.evaluation.event_rows import (
    id_column,
    label_codes,
    numbers_of,
    time_column,
    user_column,
    uses_of_time,
    with_common_type,
)
from streameval.evaluation.files import (
    Frame,
    RowBlock,
    TableColumn,
    TableInput,
    arrow,
    blocks_of,
    decode_array,
    finite_or_none,
    listing,
    parts_of,
    require,
    suffix_of,
    table_name,
)
from streameval.evaluation.list_columns import ListColumn, is_list_type, is_text, lists_in_rows
from streameval.evaluation.user_labels import LabelRows
from streameval.events.batch import IntArray
from streameval.events.errors import SourceError, UsageError
from streameval.events.ragged import Array
from streameval.events.rules import PADDING, refuse_long
from streameval.events.spelling import suggestion
from streameval.sources.files import lines
from streameval.sources.opening import size

Role: TypeAlias = Literal["recommendations", "truth"]

_SIDE_FIELDS: Final = ("user", "item")
"""Fields of both sides, which may have a name in each: truth.user=member."""

FIELDS_OF_ROWS: Final = (
    *("user", "item", "score", "rank", "rating", "time"),
    *(f"{side}.{field}" for side in ("recommendations", "truth") for field in _SIDE_FIELDS),
    "users.user",
)
"""Fields of rows that may be named."""

_ITEM: Final = (
    *("item", "itemid", "itemidx", "iid", "movieid", "docid", "docno"),
    *("product", "productid", "sku", "parentasin", "videoid", "corpusid"),
)
_ONLY_SCORE: Final = ("score", "scores", "prediction", "predictedrating", "pred")
_USUAL: Final[Mapping[str, Sequence[str]]] = {
    "user": (
        *("user", "users", "userid", "useridx", "uid", "query", "queryid", "qid", "customerid"),
        *("request", "requestid", "session", "sessionid", "visitorid"),
    ),
    "item": _ITEM,
    "rank": ("rank",),
    "score": (*_ONLY_SCORE, "relevance", "rating", "ratings"),
    "rating": ("rating", "relevance", "gain", "rel", "grade", "label", "gains", "ratings"),
}
_ZEROS: Final = frozenset({"0", "0.0", "false"})
_BINARY: Final = _ZEROS | {"1", "1.0", "true"}
_LISTS: Final[Mapping[Role, Sequence[str]]] = {
    "recommendations": ("recommendations", "items", "itemids"),
    "truth": ("interactions", "items", "itemids"),
}
"""Columns of lists of items in a wide table."""

_TIMES: Final = ("time", "timestamp", "date", "datetime", "ts", "at", "day", "hour", "created")
_EPOCH: Final = (100_000_000, 4_102_444_800)
"""Seconds since the epoch from 1973 to 2099: whole numbers here are likely times."""

_ATOMIC: Final = ("token", "float", "token_seq", "float_seq")
"""Types of columns in RecBole's atomic files."""

_INDEX: Final = ("", "index", "unnamed: 0", "__index_level_0__", "level_0")
"""Columns that pandas writes for an index."""

_TREC: Final[Mapping[Role, tuple[str, int]]] = {
    "recommendations": ("qid Q0 docno rank score tag", 4),
    "truth": ("qid 0 docno rel", 3),
}
"""The fields of a line, and the index of its number."""


class PairSide(NamedTuple):
    """The rows of one side, in the order of its files.

    Attributes:
        path: of the file, folder or pattern, or the name of the frame.
        users: Arrow dictionary of integers or strings, as are the items.
        values: score or rating of each row, shape (rows,); None without such a column.
        times: event time of each row, microseconds since the epoch, shape (rows,); None without.
        ranks: rank of each row, lowest first, shape (rows,); None without such a column.
        by_rank: whether the ranks order the items, rather than the scores.
        idle: users without a row, whose list or interactions are empty; None without.
        notes: warnings about the columns.
        is_trec: whether the file is one of trec_eval.
        used: the settings that decided how it is read.
        labels: of the users, by which values are split; None without.
    """

    path: str
    users: Any
    items: Any
    values: Array | None = None
    times: IntArray | None = None
    ranks: Array | None = None
    by_rank: bool = False
    idle: Any = None
    notes: Sequence[Note] = ()
    is_trec: bool = False
    used: Collection[Named] = ()
    labels: LabelRows | None = None

    def take(self, rows: IntArray) -> PairSide:
        """Select rows, in this order."""
        numbers: tuple[Any, ...] = (self.values, self.times, self.ranks)
        values, times, ranks = (None if of is None else of[rows] for of in numbers)
        users, items = (ids.take(arrow().array(rows)) for ids in (self.users, self.items))
        return PairSide(self.path, users, items, values, times, ranks, self.by_rank)

    def in_single(self) -> PairSide:
        """The rows with scores as 32-bit floats, which may make some equal."""
        if self.values is None:
            return self
        with np.errstate(over="ignore"):
            return self._replace(values=self.values.astype(np.float32).astype(np.float64))

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.users)


def check_field(field: str, allowed: Sequence[str]) -> None:
    """Refuse a key of `columns` that is not known."""
    if field not in allowed:
        choices = f"{', '.join(allowed)}.{suggestion(field, allowed)}"
        raise InputError(
            "{columns}: {problem}", problem=f"unknown field {field!r}; known: {choices}"
        )


class SideReader:
    """Reads the tables of one side: finds the columns, then explodes lists, then reads values.

    `clock`: the column of event time, if it is read, and the unit of numbers and text in it.
    """

    def __init__(self, role: Role, options: Options, clock: tuple[str, TimeUnit] | None) -> None:
        self._role: Role = role
        self._options, self._clock = options, clock
        self._number = "score" if role == "recommendations" else "rating"
        self._names: Sequence[str] = ()
        self._used: set[Named] = set()
        self._has_usual_names = False
        self._notes: list[Note] = []

    def read(self, tables: Sequence[TableInput]) -> PairSide:
        """The rows of all tables: the files of a folder or pattern, or a frame."""
        options, first = self._options, tables[0]
        self._has_usual_names = isinstance(first, Frame) and first.has_usual_names
        self._path = table_name(first) + (" and others" if len(tables) > 1 else "")
        blocks = [
            block
            for table in tables
            for part in parts_of(table, options)
            for block in blocks_of(part, self._select, options)
        ]
        self._used |= {(name, None) for block in blocks for name in block.used}
        rows = _ItemRows(self._path, blocks)
        del blocks
        user, item = self._find("user", rows.names), self._find("item", rows.names)
        is_wide = item is not None and rows.holds_lists(item)
        if item is None or (user is None and not is_wide):
            raise self._missing("item" if user is not None else "user")
        number, rank = (self._find(name, rows.names) for name in (self._number, "rank"))
        # What a mapping lists are ids.
        separator = "" if self._has_usual_names else options.separator_of(item)
        example = rows.explode(user, item, separator)
        cell_separator = None if self._has_usual_names else separator
        if cell_separator is not None and rows.is_decided_by(cell_separator, item):
            self._used.add(("separator", item if item in options.separator else ""))
        if example is not None:
            self._note(
                "{cells} are read as lists of ids; with {separator} each is one id.",
                cells=f"cells of {self._path} like {example!r:.60}",
                separator=Setting("separator", "", item),
            )
        values = rows.number(_USUAL[self._number], number, self._number)
        if values is None and self._named(self._number) is not None:
            used_names = (user, item, rank, *_label_columns(rows.names, options).values())
            unread = [name for name in rows.names if name not in used_names]
            self._refuse_unread(rows, unread, has_rank=rank is not None)
        orders = rank is not None and ("rank" in options.columns or values is None)
        ranks = times = None
        if rank is not None:
            # Ranks that order nothing are only compared with the scores.
            with suppress(*(() if orders else (UsageError,))):
                ranks = rows.number((), rank, "rank")
        if self._clock is not None:
            name, unit = self._clock
            moments = rows.column(name)
            times = time_column(moments, unit)[rows.row_of]
            self._used |= uses_of_time(moments)
        idle = rows.idle
        for table in tables:
            if isinstance(table, Frame) and table.idle is not None:
                frame = RowBlock(table.name, table.idle, table.idle.column_names)
                idle = id_column(frame.column(user or "user")).dictionary_encode()
        idle = None if idle is None or not len(idle) else idle
        columns = (rows.users, rows.items, values, times, ranks)
        labels = _label_rows(self._role, rows, rows.owning_users, options)
        return PairSide(
            self._path, *columns, orders, idle, self._notes, used=self._used, labels=labels
        )

    def _note(self, text: str, /, **values: Setting | str) -> None:
        self._notes.append(Note(text, **values))

    def _select(self, path: str, names: Sequence[str]) -> Mapping[str, bool]:
        """The columns to read, and all others if one of them may be the number; ids are coded."""
        self._path, self._names = path, names
        names_of = {
            role: self._find(role, names) for role in ("user", "item", self._number, "rank")
        }
        for role, name in names_of.items():
            if name is None and self._named(role):
                raise self._missing(role)
            if name is not None:
                require(path, name, names)
        if self._clock is not None:
            names_of["time"] = self._clock[0]
            require(path, self._clock[0], names, "name it with {columns.time=NAME}")
        has_number = names_of[self._number] is not None or self._named(self._number) is None
        read = {name: False for name in names_of.values() if name is not None}
        if not has_number or names_of["item"] is None:
            read = {name: False for name in names if names.count(name) == 1}
        read |= dict.fromkeys(_label_columns(names, self._options).values(), False)
        return read | {name: True for role in _SIDE_FIELDS if (name := names_of[role]) is not None}

    def _named(self, role: str) -> str | None:
        """The column that was named; "" to find it, None if there is none."""
        if role == "rank" and self._role == "truth":
            return None
        columns = self._options.columns
        key = next((key for key in (f"{self._role}.{role}", role) if key in columns), None)
        named = "" if key is None else columns[key]
        # A mapping has no columns that could be called anything.
        if self._has_usual_names and named:
            return ""
        self._used |= set() if key is None else {("columns", key)}
        return named

    def _find(self, role: str, names: Sequence[str]) -> str | None:
        """The column of a role: the named one, or the first with a usual name."""
        named = self._named(role)
        if named is None:
            return None
        usual = (*_USUAL[role], *(_LISTS[self._role] if role == "item" else ()))
        # A name given to a field of the other side is free here.
        roles = {
            "user",
            "item",
            self._number,
            "time",
            *(() if self._role == "truth" else ("rank",)),
        }
        taken = {
            name
            for field, name in self._options.columns.items()
            if field.removeprefix(f"{self._role}.") in roles | {*self._options.by}
        }
        return _find_column(named, usual, [name for name in names if named or name not in taken])

    def _missing(self, role: str) -> InputError:
        named = self._named(role)
        problem = f"no column {named!r}" if named else f"no column has a usual name of the {role}"
        return InputError(
            "{problem}; name it with {column}; if the first line has no names, give {header}."
            "{hint}",
            problem=f"{self._path}: {problem}; {listing(self._names)}",
            column=column(f"{self._role}.{role}" if role in _SIDE_FIELDS else role),
            hint=suggestion(named, self._names) if named else "",
        )

    def _refuse_unread(self, rows: _ItemRows, unread: Sequence[str], *, has_rank: bool) -> None:
        """Refuse a column of numbers that may be the score or the gain, which nobody named."""
        candidates = {
            name: rows.column(name).values
            for name in unread
            if name in rows.chunks and name.strip().lower() not in _INDEX
        }
        is_truth = self._role == "truth"
        binary = next((name for name, values in candidates.items() if _is_binary(values)), None)
        if is_truth and binary is not None:
            self._note(
                "{truth} has a column {binary} of 0 and 1, which is not read, so every row is an "
                "interaction; if 0 means no interaction, give {rating}.",
                binary=repr(binary),
                rating=column("rating", _bare(binary)),
            )
        if has_rank:
            return
        numeric = next((name for name, of in candidates.items() if _is_numeric(name, of)), None)
        if numeric is None:
            if not is_truth and candidates:
                self._note(
                    "the recommendations keep the order of their file, because no column has a "
                    "usual name of a score or rank (not read: {names}); name it with "
                    "{columns.score=NAME} or {columns.rank=NAME}.",
                    names=", ".join(candidates),
                )
            return
        name, kind = _bare(numeric), "rating" if is_truth else "score or rank"
        problem = (
            f"{self._path}: no column has a usual name of a {kind}, and {numeric!r} has numbers"
        )
        if not is_truth:
            raise InputError(
                "{found}; if it orders the items, give {score} (highest first) or {rank} (lowest "
                "first); if the rows are in order, {columns.score=}.",
                found=problem,
                score=column("score", name),
                rank=column("rank", name),
            )
        is_score = _find_column("", _ONLY_SCORE, [numeric]) is not None
        raise InputError(
            "{found}; "
            + ("if 0 in {marks} means no interaction, give {mark}; " if binary is not None else "")
            + "if it is the gain of an interaction, give {rating}; if every row counts alike, "
            "{columns.rating=}"
            + ("; or are {recommendations} and {truth} swapped?" if is_score else "."),
            found=problem,
            rating=column("rating", name),
            marks=repr(binary),
            mark=column("rating", _bare(binary or "")),
        )


_HEAD: Final = 100
"""Cells of which a list is looked for first."""


class _ItemRows:
    """The columns of several blocks, one after the other; then a row for each item.

    Attributes:
        names: of the columns, in order.
        chunks: the arrays of each column that all blocks have, by name.
        users, items: Arrow dictionaries of each row, once lists are exploded.
        owning_users: of each row before.
        row_of: the row of the table that each is from.
        idle: users whose list is empty; None without lists.
    """

    users: Any
    items: Any
    owning_users: Any
    row_of: IntArray | slice = slice(None)
    idle: Any = None

    def __init__(self, path: str, blocks: Sequence[RowBlock]) -> None:
        self._path = path
        self._starts = list(accumulate((block.rows.num_rows for block in blocks), initial=0))
        self._fields: Mapping[str, Any] = {}
        self._lengths: IntArray | None = None
        self._padded: IntArray | None = None
        self._dictionaries: dict[str, Any] = {}
        self._is_item: Array | None = None
        self.names = list(dict.fromkeys(name for block in blocks for name in block.names))
        tables = [block.rows for block in blocks if block.rows.num_rows] or [blocks[0].rows]
        self.chunks = {
            name: [_without_maps(table[name].combine_chunks()) for table in tables]
            for name in self.names
            if all(name in table.column_names for table in tables)
        }
        # Only to say where a row is: no name but that of its column holds an array.
        self._blocks = [block._replace(rows=None) for block in blocks]

    def _where(self, row: int) -> str:
        block = min(max(0, bisect_right(self._starts, row) - 1), len(self._blocks) - 1)
        return self._blocks[block].where(row - self._starts[block])

    def _where_item(self, row: int) -> str:
        return self._where(row if isinstance(self.row_of, slice) else int(self.row_of[row]))

    def _chunks_of(self, name: str) -> Sequence[Any]:
        if name not in self.chunks:
            problem = f"{self._path}: some rows have no column {name!r}"
            raise InputError("{problem}; give it to all.", problem=problem)
        return self.chunks[name]

    def column(self, name: str) -> TableColumn:
        """The column of this name in all rows."""
        values = _concatenate([decode_array(chunk) for chunk in self._chunks_of(name)])
        return TableColumn(self._path, name, values, self._where)

    def holds_lists(self, name: str) -> bool:
        """True if the column of this name has lists by its type."""
        return any(is_list_type(chunk.type) for chunk in self._chunks_of(name))

    def _encode(self, name: str) -> Any:
        """A column as a dictionary; None if it has lists."""
        if name not in self._dictionaries:
            chunks = self._chunks_of(name)
            are_nested = any(chunk.type.num_fields for chunk in chunks)
            self._dictionaries[name] = None if are_nested else encode(chunks, _concatenate)
        return self._dictionaries[name]

    def _ids(self, name: str) -> Any:
        """The ids of a column as a dictionary; an error names the row."""
        ids = self._encode(name)
        if ids is None:
            return id_column(self.column(name)).dictionary_encode()
        return _check_ids(TableColumn(self._path, name, None, self._where), ids)

    def is_decided_by(self, separator: str, item: str) -> bool:
        """True if a separator splits a cell of text, or keeps one that looks like a list."""
        ids = self._encode(item)
        if ids is None or not is_text(ids.dictionary.type):
            return False
        has_it = arrow("compute").match_substring(ids.dictionary, separator)
        if separator and arrow("compute").any(has_it).as_py():
            return True
        with suppress(InputError):
            words = TableColumn(self._path, item, ids.dictionary, self._where)
            return lists_in_rows(words, None)[0] is not None
        return True

    def explode(self, user: str | None, item: str, separator: str | None) -> str | None:
        """Make a row for each item, of cells that may be lists of items, or of structs with one.

        Returns:
            A cell of text that is a list; None without.
        """
        if user is None:
            self.users = arrow().array(np.arange(self._starts[-1])).dictionary_encode()
        else:
            self.users = self._ids(user)
        self.owning_users = self.users
        lists, example = self._lists_of(item, separator)
        if lists is None:
            self.items = self._ids(item)
            return None
        compute = arrow("compute")
        lengths = compute.fill_null(compute.list_value_length(lists), 0).to_numpy()
        refuse_long(item, lengths)
        row_of, self._lengths = np.repeat(np.arange(len(lengths)), lengths), lengths
        entries = lists.flatten()
        if arrow().types.is_struct(entries.type):
            self._fields = {
                struct_field.name: entries.field(struct_field.name) for struct_field in entries.type
            }
            inner = _find_column("", _ITEM, list(self._fields))
            if inner is None:
                problem = f"{self._path}: {item!r} holds structs without an item"
                names = ", ".join(self._fields)
                raise InputError("{problem}; they have {known}.", problem=problem, known=names)
            entries = self._fields[inner]
        entries = decode_array(entries)
        is_item = _before_padding(entries, row_of)
        if not is_item.all():
            self._is_item, self._padded = is_item, lengths
            entries, row_of = entries.filter(arrow().array(is_item)), row_of[is_item]
            self._lengths = lengths = np.bincount(row_of, minlength=len(lengths))
        self.row_of = row_of
        column_of_items = TableColumn(self._path, item, None, self._where_item)
        self.items = _check_ids(column_of_items, encode([entries], _concatenate))
        self.idle = self.users.filter(arrow().array(lengths == 0))
        self.users = self.users.take(arrow().array(self.row_of))
        return example

    def _lists_of(self, item: str, separator: str | None) -> tuple[Any, str | None]:
        """The lists in the cells of a column, and one as text; (None, None) if it has none.

        Where the cells tell it, the distinct ones do: only a column of lists is read as text.
        """
        head = self._chunks_of(item)[0][:_HEAD]
        if separator or head.type.num_fields:
            return lists_in_rows(self.column(item), separator)
        if separator == "" and self._encode(item) is not None:
            return None, None
        with suppress(InputError):
            # Cells that are lists are mostly distinct, so that codes would only cost.
            first = TableColumn(self._path, item, decode_array(head), self._where)
            if lists_in_rows(first, None)[0] is None and self._encode(item) is not None:
                words = TableColumn(self._path, item, self._encode(item).dictionary, self._where)
                if lists_in_rows(words, None)[0] is None:
                    return None, None
        return lists_in_rows(self.column(item), separator)

    def number(self, usual: Sequence[str], name: str | None, role: str) -> Array | None:
        """The score, rating or rank of each item; None without such a column."""
        inner = _find_column("", usual, list(self._fields))
        if inner is not None:
            values = self._without_padding(decode_array(self._fields[inner]))
            return numbers_of(TableColumn("", inner, values, self._where_item))
        if name is None:
            return None
        chunks = self._chunks_of(name)
        are_texts = self._lengths is not None and any(map(_is_text, chunks))
        if self._lengths is None or not (are_texts or self.holds_lists(name)):
            # Part by part: text takes more memory than its numbers.
            parts, start = [], 0
            for chunk in chunks:
                where = partial(self._where_after, start)
                values = decode_array(chunk)
                parts.append(numbers_of(TableColumn(self._path, name, values, where)))
                start += len(chunk)
            return np.concatenate(parts)[self.row_of]
        column = self.column(name)
        values = column.values
        if is_text(values.type):
            values = ListColumn("numbers").read(column)
        if not is_list_type(values.type):
            return numbers_of(column)[self.row_of]
        compute, numbers = arrow("compute"), values.flatten()
        other_lengths = compute.fill_null(compute.list_value_length(values), 0).to_numpy()
        if self._padded is not None and (other_lengths == self._padded).all():
            other_lengths, numbers = self._lengths, self._without_padding(numbers)
        unlike = np.flatnonzero(other_lengths != self._lengths)
        if unlike.size:
            row = int(unlike[0])
            problem = f"{other_lengths[row]} numbers for {self._lengths[row]} items"
            raise column.error(row, problem, f"give one {role} for each item")
        return numbers_of(TableColumn(column.path, name, numbers, self._where_item))

    def _where_after(self, start: int, row: int) -> str:
        return self._where(start + row)

    def _without_padding(self, entries: Any) -> Any:
        """The entries beside items, without those beside padding."""
        return entries if self._is_item is None else entries.filter(arrow().array(self._is_item))


def _before_padding(items: Any, row_of: IntArray) -> Any:
    """A mask of the items that are not padding at the end of their list, one of `row_of`."""
    types, is_word = arrow().types, arrow().types.is_large_string(items.type)
    if not len(items) or not (is_word or types.is_signed_integer(items.type)):
        return np.ones(len(items), np.bool_)
    padding_values = [value for value in PADDING if isinstance(value, str) == is_word]
    padding = arrow("compute").is_in(items, value_set=arrow().array(padding_values, items.type))
    at, ends = np.arange(1, len(items) + 1), np.zeros(row_of[-1] + 1, np.int64)
    np.maximum.at(ends, row_of, np.where(padding.to_numpy(zero_copy_only=False), 0, at))
    return at <= ends[row_of]


def _check_ids(column: TableColumn, ids: Any) -> Any:
    """A dictionary of ids, each of whose words is checked once; an error names the row."""
    words = ids.dictionary
    if ids.null_count or user_column(column._replace(values=words)).null_count:
        id_column(column._replace(values=words.take(ids.indices)))
    if len(words):
        return ids
    return user_column(column._replace(values=words)).dictionary_encode()


def _without_maps(values: Any) -> Any:
    return decode_array(values) if values.type.num_fields else values


def _is_text(values: Any) -> bool:
    is_coded = arrow().types.is_dictionary(values.type)
    return is_text(values.type.value_type if is_coded else values.type)


def _label_columns(names: Sequence[str], options: Options) -> dict[str, str]:
    """The column of each label that a table has."""
    columns = {
        label: _find_column(options.columns.get(label) or label, (), names) for label in options.by
    }
    return {label: name for label, name in columns.items() if name is not None}


def _label_rows(source: str, rows: _ItemRows, users: Any, options: Options) -> LabelRows | None:
    """The labels in the columns of a table; None if values are not split."""
    if not options.by:
        return None
    texts = {}
    for label, at in _label_columns(rows.names, options).items():
        column = rows.column(at)
        words, codes = label_codes(column.values, column.where)
        texts[label] = arrow().DictionaryArray.from_arrays(codes, words)
    return LabelRows(source, rows.names, users, texts)


def read_labels(tables: Sequence[TableInput], options: Options) -> LabelRows | None:
    """The labels in a table of users."""
    used: set[Named] = set()

    def user_of(path: str, names: Sequence[str]) -> str:
        key = "users.user" if options.columns.get("users.user") else "user"
        named = options.columns.get(key)
        used.update([] if named is None else [("columns", key)])
        user = _find_column(named, (), names) or _find_column("", _USUAL["user"], names)
        if user is None:
            raise InputError(
                "{problem}; name it with {columns.users.user=NAME}.",
                problem=f"{path}: no column has a usual name of the user; {listing(names)}",
            )
        return user

    def select(path: str, names: Sequence[str]) -> Mapping[str, bool]:
        columns = dict.fromkeys(_label_columns(names, options).values(), False)
        return columns | {user_of(path, names): True}

    blocks = [
        block
        for table in tables
        for part in parts_of(table, options)
        for block in blocks_of(part, select, options)
    ]
    used.update((name, None) for block in blocks for name in block.used)
    rows = _ItemRows(table_name(tables[0]), blocks)
    users = id_column(rows.column(user_of(table_name(tables[0]), rows.names)))
    labels = _label_rows("users", rows, users.dictionary_encode(), options)
    return None if labels is None else labels._replace(used=used)


def _concatenate(arrays: Sequence[Any]) -> Any:
    """Arrays of files, which may have integers in one and text in the other."""
    types = arrow().types
    if len({str(array.type) for array in arrays}) == 1:
        return arrow().concat_arrays(arrays)
    if all(types.is_integer(array.type) or is_text(array.type) for array in arrays):
        return arrow().concat_arrays(with_common_type(arrays))
    if all(types.is_integer(array.type) or types.is_floating(array.type) for array in arrays):
        return arrow().concat_arrays([array.cast(arrow().float64()) for array in arrays])
    kinds = " and ".join(sorted({str(array.type) for array in arrays}))
    raise InputError("the files have columns of {kinds}; write them alike.", kinds=kinds)


def _texts(values: Any) -> set[str]:
    """The distinct values of a column as text; none if it has lists or structs."""
    types = arrow().types
    if not (types.is_primitive(values.type) or types.is_large_string(values.type)):
        return set()
    return {str(value).lower() for value in values.unique().to_pylist()}


def _is_binary(values: Any) -> bool:
    # Most columns are ruled out by their first rows.
    if not _texts(values.slice(0, 100)) <= _BINARY:
        return False
    texts = _texts(values)
    return texts <= _BINARY and bool(texts & _ZEROS)


def _is_numeric(name: str, values: Any) -> bool:
    """True if a column has only numbers, others than 0 and 1, that are not ids, times or index."""
    named = _normalize(name)
    if arrow().types.is_temporal(values.type) or named.endswith(("id", "idx", *_TIMES)):
        return False
    texts = _texts(values.slice(0, 1000))
    numbers = [finite_or_none(text) for text in texts if text not in ("none", "")]
    present = [number for number in numbers if number is not None]
    if texts <= _BINARY or not present or len(present) < len(numbers):
        return False
    return not any(
        all(_EPOCH[0] * unit <= number < _EPOCH[1] * unit for number in present)
        for unit in (1, 1_000, 1_000_000, 1_000_000_000)
    )


def _find_column(named: str | None, usual: Sequence[str], header: Sequence[str]) -> str | None:
    if named:
        return next((name for name in header if named in (name, _bare(name))), None)
    by_name = {_normalize(name): name for name in reversed(header)}
    return next((by_name[name] for name in usual if name in by_name), None)


def _normalize(name: str) -> str:
    return _bare(name).lower().replace("_", "").replace("-", "")


def _bare(name: str) -> str:
    """The name without the type suffix of RecBole's atomic files: user_id:token."""
    bare, _, kind = name.partition(":")
    return bare.strip() if kind in _ATOMIC else name.strip()


def is_trec(path: str, role: Role) -> bool:
    """True if the first line of a file looks like one of trec_eval; always False for a pipe.

    A last number that is a time, as in MovieLens' u.data, is not a judgement.
    """
    if suffix_of(path) in (".parquet", ".pq", ".feather", ".arrow") or size(path) is None:
        return False
    number = _trec_number(next(iter(lines(path)), b"").decode("utf-8", "replace"), role)
    return number is not None and number < _EPOCH[0]


def _trec_number(line: str, role: Role) -> float | None:
    form, at = _TREC[role]
    fields = line.split()
    return finite_or_none(fields[at]) if len(fields) == len(form.split()) else None


def read_trec(path: str, role: Role) -> PairSide:
    """The rows of a trec_eval file; the number is the score of results, the rating of qrels.

    Scores are rounded to 32-bit floats, as in trec_eval, which creates the same ties.
    """
    text = arrow().large_string()
    users, items, values = [], [], []
    for row, line in enumerate(lines(path), 1):
        try:
            decoded = line.decode()
        except UnicodeDecodeError as error:
            problem = f"row {row}: byte 0x{line[error.start]:02x} is not UTF-8"
            raise SourceError(path, problem, "save the file as UTF-8 text") from None
        number = _trec_number(decoded, role)
        if number is None:
            problem = f"row {row}: found {line[:60].decode('utf-8', 'replace')!r}"
            what = {"recommendations": "results", "truth": "qrels"}[role]
            remedy = f"trec_eval's {what} are lines of: {_TREC[role][0]}"
            raise SourceError(path, problem, remedy)
        user, _, item, *_ = decoded.split()
        users.append(user)
        items.append(item)
        values.append(number)
    numbers = np.array(values, np.float64)
    if role == "recommendations":
        with np.errstate(over="ignore"):
            numbers = numbers.astype(np.float32).astype(np.float64)
    coded = [arrow().array(ids, text).dictionary_encode() for ids in (users, items)]
    return PairSide(path, coded[0], coded[1], numbers, is_trec=True)


def common_topics(results: PairSide, qrels: PairSide) -> tuple[PairSide, PairSide, int]:
    """The rows of topics in both files, and the number of other topics."""
    sides = (results, qrels)
    topics, codes = merge_coded([side.users for side in sides])
    both = np.ones(len(topics), np.bool_)
    for of_side in codes:
        both &= np.bincount(of_side, minlength=len(topics)) > 0
    results, qrels = (
        side.take(np.flatnonzero(both[of_side])) for side, of_side in zip(sides, codes, strict=True)
    )
    return results, qrels, int((~both).sum())
