"""Tables of users and items, one side of a pair: recommendations, or the truth.

Functions raise InputError for a table that can be read in two ways, and name the setting that
decides.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate, islice
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np

from streameval.decoding.fields import TimeUnit
from streameval.evaluation.cells import ListColumn, Separator, is_list_type, is_text, lists_in_rows
from streameval.evaluation.events import id_column, numbers_of, of_one_kind, time_column
from streameval.evaluation.files import (
    Frame,
    RowBlock,
    Table,
    TableColumn,
    arrow,
    blocks_of,
    finite_or_none,
    listing,
    parts_of,
    plain_array,
    require,
    suffix_of,
    table_name,
)
from streameval.evaluation.options import InputError, Note, Options, Setting, column
from streameval.events.batch import IntArray
from streameval.events.errors import SourceError, UsageError, suggestion
from streameval.events.ragged import Array
from streameval.events.rules import refuse_long
from streameval.sources.files import lines
from streameval.sources.opening import size

Role: TypeAlias = Literal["recommendations", "truth"]

ROLES: Final = ("user", "item", "score", "rank", "rating", "time")
"""Fields of rows that may be named."""

OF_ONE_SIDE: Final = ("user", "item")
"""Those of both sides, which may have a name in each: truth.user=member."""

_USER: Final = (
    *("user", "users", "userid", "useridx", "uid", "query", "queryid", "qid", "customerid"),
    *("request", "requestid", "session", "sessionid"),
)
_ITEM: Final = (
    *("item", "itemid", "itemidx", "iid", "movieid", "docid", "docno"),
    *("product", "productid", "sku"),
)
_RANK: Final = ("rank",)
_ZEROS: Final = frozenset({"0", "0.0", "false"})
_BINARY: Final = _ZEROS | {"1", "1.0", "true"}
_ONLY_SCORE: Final = ("score", "scores", "prediction", "predictedrating", "pred")
_SCORE: Final = (*_ONLY_SCORE, "relevance", "rating", "ratings")
_RATING: Final = ("rating", "relevance", "gain", "rel", "grade", "label", "gains", "ratings")
_LISTS: Final[Mapping[Role, Sequence[str]]] = {
    "recommendations": ("recommendations", "items"),
    "truth": ("interactions", "items"),
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


class Side(NamedTuple):
    """The rows of one side, in the order of its files.

    Attributes:
        path: of the file, folder or pattern, or the name of the frame.
        users: Arrow array of integers or strings; likewise the items.
        worth: score or rating of each row, shape (rows,); None without such a column.
        times: event time of each row, microseconds since the epoch, shape (rows,); None without.
        ranks: rank of each row, lowest first, shape (rows,); None without such a column.
        by_rank: whether the ranks order the items, rather than the scores.
        idle: users without a row, whose list or interactions are empty; None without.
        notes: doubts about the columns.
    """

    path: str
    users: Any
    items: Any
    worth: Array | None = None
    times: IntArray | None = None
    ranks: Array | None = None
    by_rank: bool = False
    idle: Any = None
    notes: Sequence[Note] = ()

    def take(self, rows: IntArray) -> Side:
        """These rows, in this order."""
        return self._replace(
            users=self.users.take(arrow().array(rows)),
            items=self.items.take(arrow().array(rows)),
            worth=None if self.worth is None else self.worth[rows],
            times=None if self.times is None else self.times[rows],
            ranks=None if self.ranks is None else self.ranks[rows],
            idle=None,
        )

    def without(self, seen: Side) -> Side:
        """The rows whose user has not seen the item; the others move up."""
        users = coded(of_one_kind([self.users, seen.users]))[1]
        names, items = coded(of_one_kind([self.items, seen.items]))
        mine, theirs = (by * len(names) + of for by, of in zip(users, items, strict=True))
        rows = np.flatnonzero(~np.isin(mine, theirs))
        left = self.take(rows)._replace(idle=self.idle)
        if left.ranks is None or not left.size:
            return left
        order, places = by_rank(users[0][rows], left.ranks)
        ranks = np.empty(left.size, np.float64)
        ranks[order] = places
        return left._replace(ranks=ranks)

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.users)


def coded(arrays: Sequence[Any]) -> tuple[Any, list[IntArray]]:
    """The distinct ids of several arrays, in order of appearance, and the code of each entry."""
    encoded = arrow().concat_arrays(arrays).dictionary_encode()
    codes = encoded.indices.to_numpy().astype(np.int64)
    edges = np.cumsum([len(array) for array in arrays])[:-1]
    return encoded.dictionary, np.split(codes, edges)


def by_rank(users: IntArray, ranks: Array) -> tuple[IntArray, IntArray]:
    """The order of rows by user and rank, and the place of each in its list, from 1."""
    order = np.lexsort((ranks, users))
    starts = np.concatenate(([0], np.cumsum(np.bincount(users))))[users[order]]
    return order, np.arange(len(order)) - starts + 1


class TimeColumn(NamedTuple):
    """The column of event time, and the unit of numbers and text in it."""

    name: str
    unit: TimeUnit


def check_field(field: str, known: Sequence[str]) -> None:
    """Refuse a key of `columns` that is not known."""
    if field not in known:
        listed = f"{', '.join(known)}.{suggestion(field, known)}"
        raise InputError(f"{{columns}}: unknown field {field!r}; known: {listed}")


def check_columns(columns: Mapping[str, str | None]) -> None:
    """Refuse names of fields that rows do not have."""
    both = [f"{side}.{role}" for side in _LISTS for role in OF_ONE_SIDE]
    for field in columns:
        check_field(field, [*ROLES, *both])


class SideReader:
    """Reads the tables of one side: finds the columns, then explodes lists, then reads values.

    `clock`: event time, if it is read.
    """

    def __init__(self, role: Role, options: Options, clock: TimeColumn | None) -> None:
        self._role, self._options, self._clock = role, options, clock
        self._number = "score" if role == "recommendations" else "rating"
        self._usual = _SCORE if role == "recommendations" else _RATING
        self._names: Sequence[str] = ()
        self._has_usual_names = False
        self._notes: list[Note] = []

    def read(self, tables: Sequence[Table]) -> Side:
        """The rows of all tables: the files of a folder or pattern, or a frame."""
        first = tables[0]
        self._has_usual_names = isinstance(first, Frame) and first.has_usual_names
        self._path = (
            table_name(first) if len(tables) == 1 else f"{table_name(tables[0])} and others"
        )
        blocks = [
            block
            for table in tables
            for part in parts_of(table, self._options)
            for block in blocks_of(part, self._select, self._options)
        ]
        rows = _JoinedRows(self._path, blocks)
        user, item = self._find("user", rows.names), self._find("item", rows.names)
        is_wide = item is not None and is_list_type(rows.column(item).values.type)
        if item is None or (user is None and not is_wide):
            raise self._missing("item" if user is not None else "user")
        number, rank = (self._find(name, rows.names) for name in (self._number, "rank"))
        separator = self._options.separator.get(item, self._options.separator.get(""))
        # What a mapping lists are ids.
        separator = "" if self._has_usual_names else separator
        long = _Exploded.of(rows, user, item, separator)
        if long.example is not None:
            self._notes.append(
                Note(
                    f"cells of {self._path} like {long.example!r:.60} are read as lists of ids; "
                    "with {separator} each is one id.",
                    separator=Setting("separator", "", item),
                )
            )
        worth = long.number(self._usual, number, self._number)
        if worth is None and self._named(self._number) is not None:
            unread = [name for name in rows.names if name not in (user, item, rank)]
            self._refuse_unread(rows, unread, has_rank=rank is not None)
        by_rank = rank is not None and ("rank" in self._options.columns or worth is None)
        ranks = None
        if rank is not None:
            # Ranks that order nothing are only compared with the scores.
            with suppress(*(() if by_rank else (UsageError,))):
                ranks = long.number((), rank, "rank")
        times = None
        if self._clock is not None:
            times = time_column(rows.column(self._clock.name), self._clock.unit)[long.owners]
        idle = long.idle
        for table in tables:
            if isinstance(table, Frame) and table.idle is not None:
                frame = RowBlock(table.name, table.idle, table.idle.column_names)
                idle = id_column(frame.column(user or "user"))
        return Side(
            self._path,
            long.users,
            long.items,
            worth,
            times,
            ranks,
            by_rank,
            None if idle is None or not len(idle) else idle,
            self._notes,
        )

    def _select(self, path: str, names: Sequence[str]) -> Collection[str]:
        """The columns to read, and all others if one of them may be the number."""
        self._path, self._names = path, names
        found = {role: self._find(role, names) for role in ("user", "item", self._number, "rank")}
        for role, name in found.items():
            if name is None and self._named(role):
                raise self._missing(role)
            if name is not None:
                require(path, name, names)
        if self._clock is not None:
            require(path, self._clock.name, names, "name it with {columns.time=NAME}")
        has_number = found[self._number] is not None or self._named(self._number) is None
        if not has_number or found["item"] is None:
            return {name for name in names if names.count(name) == 1}
        times = {self._clock.name} if self._clock else set()
        return times | {name for name in found.values() if name is not None}

    def _named(self, role: str) -> str | None:
        """The column that was named; "" to find it, None if there is none."""
        if role == "rank" and self._role == "truth":
            return None
        columns = self._options.columns
        named = columns.get(f"{self._role}.{role}", columns.get(role, ""))
        # A mapping has no columns that could be called anything.
        return "" if self._has_usual_names and named else named

    def _find(self, role: str, names: Sequence[str]) -> str | None:
        """The column of a role: the named one, or the first with a usual name."""
        named = self._named(role)
        if named is None:
            return None
        usual = {"user": _USER, "item": _ITEM, "rank": _RANK}.get(role, self._usual)
        if role == "item":
            usual = (*usual, *_LISTS[self._role])
        taken = {*self._options.columns.values()}
        return _find_column(named, usual, [name for name in names if named or name not in taken])

    def _missing(self, role: str) -> InputError:
        named = self._named(role)
        problem = f"no column {named!r}" if named else f"no column has a usual name of the {role}"
        key = f"{self._role}.{role}" if role in OF_ONE_SIDE else role
        return InputError(
            f"{self._path}: {problem}; {listing(self._names)}; name it with "
            "{column}; if the first line has no names, give {header}.",
            column=column(key),
        )

    def _refuse_unread(self, rows: _JoinedRows, unread: Sequence[str], *, has_rank: bool) -> None:
        """Refuse a column of numbers that may be the score or the gain, which nobody named."""
        candidates = [name for name in unread if name in rows.present]
        candidates = [name for name in candidates if name.strip().lower() not in _INDEX]
        binary = next((name for name in candidates if _is_binary(rows.table[name])), None)
        if self._role == "truth" and binary is not None:
            self._notes.append(
                Note(
                    "{truth}"
                    f" has a column {binary!r} of 0 and 1, which is not read, so every row is an "
                    "interaction; if 0 is none, give {rating}.",
                    rating=column("rating", _bare(binary)),
                )
            )
        if has_rank:
            return
        numeric = next((name for name in candidates if _is_numeric(name, rows.table[name])), None)
        if numeric is not None:
            raise self._unread(numeric)
        if self._role == "recommendations" and candidates:
            self._notes.append(
                Note(
                    "the recommendations keep the order of their file, because no column has a "
                    f"usual name of a score or rank (not read: {', '.join(candidates)}); name it "
                    "with {columns.score=NAME} or {columns.rank=NAME}."
                )
            )

    def _unread(self, numeric: str) -> InputError:
        name = _bare(numeric)
        if self._role == "recommendations":
            return InputError(
                f"{self._path}: no column has a usual name of a score or rank, and {numeric!r} has "
                "numbers; if it orders the items, give {score} (highest first) or {rank} (lowest "
                "first); if the rows are in order, {columns.score=}.",
                score=column("score", name),
                rank=column("rank", name),
            )
        swapped = "."
        if _find_column("", _ONLY_SCORE, [numeric]) is not None:
            swapped = "; or are {recommendations} and {truth} swapped?"
        return InputError(
            f"{self._path}: no column has a usual name of a rating, and {numeric!r} has numbers; "
            "if it is the gain of an interaction, give {rating}; if every row counts alike, "
            f"{{columns.rating=}}{swapped}",
            rating=column("rating", name),
        )


class _JoinedRows:
    """The columns of several blocks, one after the other."""

    def __init__(self, path: str, blocks: Sequence[RowBlock]) -> None:
        self._path, self._blocks = path, blocks
        self._starts = list(accumulate((block.rows.num_rows for block in blocks), initial=0))
        self.names = list(dict.fromkeys(name for block in blocks for name in block.names))
        tables = [block.rows for block in blocks if block.rows.num_rows] or [blocks[0].rows]
        self.present = {name for name in self.names if all(name in t.column_names for t in tables)}
        self.table = {
            name: _joined([plain_array(table[name].combine_chunks()) for table in tables])
            for name in self.names
            if name in self.present
        }
        self.count = self._starts[-1]

    def place(self, row: int) -> str:
        """The file and line of a row."""
        block = max(0, bisect_right(self._starts, row) - 1)
        block = min(block, len(self._blocks) - 1)
        return self._blocks[block].place(row - self._starts[block])

    def column(self, name: str) -> TableColumn:
        """The column of this name in all rows."""
        if name not in self.table:
            raise InputError(f"{self._path}: some rows have no column {name!r}; give it to all.")
        return TableColumn(self._path, name, self.table[name], self.place)


def _joined(arrays: Sequence[Any]) -> Any:
    """Arrays of files, which may have integers in one and text in the other."""
    if len({str(array.type) for array in arrays}) == 1:
        return arrow().concat_arrays(arrays)
    if all(arrow().types.is_integer(a.type) or is_text(a.type) for a in arrays):
        return arrow().concat_arrays(of_one_kind(arrays))
    if all(arrow().types.is_integer(a.type) or arrow().types.is_floating(a.type) for a in arrays):
        return arrow().concat_arrays([array.cast(arrow().float64()) for array in arrays])
    kinds = " and ".join(sorted({str(array.type) for array in arrays}))
    raise InputError(f"the files have columns of {kinds}; write them alike.")


class _Exploded(NamedTuple):
    """A row for each item.

    Attributes:
        owners: the row of the table that each is from.
        idle: users whose list is empty.
        example: a cell of text that is a list; None without.
    """

    rows: _JoinedRows
    users: Any
    items: Any
    owners: IntArray | slice
    idle: Any = None
    fields: Any = None
    lengths: IntArray | None = None
    example: str | None = None

    @classmethod
    def of(cls, rows: _JoinedRows, user: str | None, item: str, separator: str | None) -> _Exploded:
        """The rows, whose cells may be lists of items, or of structs of item and number."""
        cells = rows.column(item)
        lists, example = lists_in_rows(cells, separator)
        users = (
            arrow().array(np.arange(rows.count)) if user is None else id_column(rows.column(user))
        )
        if lists is None:
            return cls(rows, users, id_column(cells), slice(None))
        compute = arrow("compute")
        lengths = compute.fill_null(compute.list_value_length(lists), 0).to_numpy()
        refuse_long(item, lengths)
        owners: IntArray = np.repeat(np.arange(len(lengths)), lengths)
        entries, fields = lists.flatten(), None
        if arrow().types.is_struct(entries.type):
            fields = {each.name: entries.field(each.name) for each in entries.type}
            inner = _find_column("", _ITEM, list(fields))
            if inner is None:
                raise InputError(
                    f"{cells.path}: {item!r} holds structs without an item; they have "
                    f"{', '.join(fields)}."
                )
            entries = fields[inner]

        def place(row: int) -> str:
            return rows.place(int(owners[row]))

        items = id_column(TableColumn(cells.path, item, plain_array(entries), place))
        idle = users.filter(arrow().array(lengths == 0))
        taken = users.take(arrow().array(owners))
        return cls(rows, taken, items, owners, idle, fields, lengths, example)

    def number(self, usual: Sequence[str], name: str | None, role: str) -> Array | None:
        """The score, rating or rank of each item; None without such a column."""
        if self.fields is not None:
            inner = _find_column("", usual, list(self.fields))
            if inner is not None:
                values = plain_array(self.fields[inner])
                return numbers_of(TableColumn("", inner, values, self._place))
        if name is None:
            return None
        found = self.rows.column(name)
        if self.lengths is None:
            return numbers_of(found)
        values = found.values
        if is_text(values.type):
            values = ListColumn("numbers", Separator()).read(found)
        if not is_list_type(values.type):
            return numbers_of(found)[self.owners]
        compute = arrow("compute")
        theirs = compute.fill_null(compute.list_value_length(values), 0).to_numpy()
        unlike = np.flatnonzero(theirs != self.lengths)
        if unlike.size:
            row = int(unlike[0])
            problem = f"{theirs[row]} numbers for {self.lengths[row]} items"
            raise found.error(row, problem, f"give one {role} for each item")
        flat = TableColumn(found.path, name, values.flatten(), self._place)
        return numbers_of(flat)

    def _place(self, row: int) -> str:
        owners = self.owners
        return self.rows.place(row if isinstance(owners, slice) else int(owners[row]))


def _texts(values: Any) -> set[str]:
    return {str(value).lower() for value in values.unique().to_pylist()}


def _is_simple(values: Any) -> bool:
    types = arrow().types
    return bool(types.is_primitive(values.type) or types.is_large_string(values.type))


def _is_binary(values: Any) -> bool:
    # Most columns are ruled out by their first rows.
    if not _is_simple(values) or not _texts(values.slice(0, 100)) <= _BINARY:
        return False
    texts = _texts(values)
    return texts <= _BINARY and bool(texts & _ZEROS)


def _is_numeric(name: str, values: Any) -> bool:
    """Whether a column has only numbers, others than 0 and 1, that are no ids, times or index."""
    plain_name = _plain_name(name)
    if not _is_simple(values) or arrow().types.is_temporal(values.type) or not len(values):
        return False
    if plain_name.endswith(("id", "idx")):
        return False
    texts = _texts(values.slice(0, 1000))
    numbers = [finite_or_none(text) for text in texts if text not in ("none", "")]
    known = [number for number in numbers if number is not None]
    if texts <= _BINARY or not known or len(known) < len(numbers):
        return False
    if plain_name.endswith(_TIMES):
        return False
    return not any(
        all(_EPOCH[0] * unit <= number < _EPOCH[1] * unit for number in known)
        for unit in (1, 1_000, 1_000_000, 1_000_000_000)
    )


def _find_column(named: str | None, usual: Sequence[str], header: Sequence[str]) -> str | None:
    """The named column, or else the first one with a usual name."""
    if named:
        return next((name for name in header if named in (name, _bare(name))), None)
    found = {_plain_name(name): name for name in reversed(header)}
    return next((found[name] for name in usual if name in found), None)


def _plain_name(name: str) -> str:
    return _bare(name).lower().replace("_", "").replace("-", "")


def _bare(name: str) -> str:
    """The name without the type suffix of RecBole's atomic files: user_id:token."""
    bare, _, kind = name.partition(":")
    return bare.strip() if kind in _ATOMIC else name.strip()


def is_trec(path: str, role: Role) -> bool:
    """Whether the first line of a file looks like one of trec_eval; always False for a pipe.

    A last number that is a time, as in MovieLens' u.data, is no judgement.
    """
    if suffix_of(path) in (".parquet", ".pq", ".feather", ".arrow") or size(path) is None:
        return False
    fields, at = _TREC[role]
    first = next(islice(lines(path), 1), b"").decode("utf-8", "replace").split()
    number = finite_or_none(first[at]) if len(first) == len(fields.split()) else None
    return number is not None and number < _EPOCH[0]


def read_trec(path: str, role: Role) -> Side:
    """The rows of a trec_eval file; the number is the score of results, the rating of qrels.

    Scores are rounded to 32-bit floats, as in trec_eval, which creates the same ties.
    """
    (form, at), text = _TREC[role], arrow().large_string()
    users, items, worth = [], [], []
    for user, item, number in _trec_lines(path, role, form, at):
        users.append(user)
        items.append(item)
        worth.append(number)
    numbers = np.array(worth, np.float64)
    if role == "recommendations":
        with np.errstate(over="ignore"):
            numbers = numbers.astype(np.float32).astype(np.float64)
    return Side(path, arrow().array(users, text), arrow().array(items, text), numbers)


def _trec_lines(path: str, role: Role, form: str, at: int) -> Iterator[tuple[str, str, float]]:
    what = {"recommendations": "results", "truth": "qrels"}[role]
    for row, line in enumerate(lines(path), 1):
        try:
            fields = line.decode().split()
        except UnicodeDecodeError as error:
            problem = f"row {row}: byte 0x{line[error.start]:02x} is not UTF-8"
            raise SourceError(path, problem, "save the file as UTF-8 text") from None
        number = finite_or_none(fields[at]) if len(fields) == len(form.split()) else None
        if number is None:
            problem = f"row {row}: found {line[:60].decode('utf-8', 'replace')!r}"
            raise SourceError(path, problem, f"trec_eval's {what} are lines of: {form}")
        yield fields[0], fields[2], number


def common_topics(results: Side, qrels: Side) -> tuple[Side, Side, int]:
    """The rows of topics in both files, and the number of other topics."""
    topics = [set(side.users.to_pylist()) for side in (results, qrels)]
    both = arrow().array(sorted(topics[0] & topics[1]), arrow().large_string())
    kept = [
        side.take(np.flatnonzero(arrow("compute").is_in(side.users, value_set=both)))
        for side in (results, qrels)
    ]
    return kept[0], kept[1], len(topics[0] ^ topics[1])
