"""Pairs of files with one item per row, joined by user: recommendations and truth, or trec_eval."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from itertools import islice
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np

from streameval.decoding.fields import TimeUnit
from streameval.evaluation.tables.events import span_starts
from streameval.evaluation.tables.files import (
    FileTable,
    Kind,
    arrow,
    finite,
    ids_of,
    is_table,
    join_tables,
    numbers_of,
    of_one_kind,
    times_of,
)
from streameval.evaluation.tables.wording import COMMAND, Wording
from streameval.events.batch import IntArray
from streameval.events.columns import Columns
from streameval.events.errors import SourceError
from streameval.events.ragged import Array
from streameval.sources.files import lines
from streameval.sources.opening import expand, size

Ties: TypeAlias = Literal["arrival", "id_desc", "id_asc"]
"""Order of items with equal scores: the earlier row, the larger id, or the smaller id first."""

TrecFile: TypeAlias = Literal["results", "qrels"]

_USER = (
    *("user", "users", "userid", "useridx", "uid", "query", "queryid", "qid"),
    *("request", "requestid", "session", "sessionid"),
)
_ITEM = (
    *("item", "itemid", "itemidx", "iid", "movieid", "docid", "docno"),
    *("product", "productid", "sku"),
)
_RANK = ("rank",)
_ZEROS = frozenset({"0", "0.0", "false"})
_BINARY = _ZEROS | {"1", "1.0", "true"}
_ONLY_SCORE = ("score", "scores", "prediction", "predictedrating", "pred")
_SCORE = (*_ONLY_SCORE, "relevance", "rating")
_RATING = ("rating", "relevance", "gain", "rel", "grade", "label")

_TREC: dict[TrecFile, tuple[str, int]] = {
    "results": ("qid Q0 docno rank score tag", 4),
    "qrels": ("qid 0 docno rel", 3),
}
"""The fields of a line, and the index of its number."""


class Names(msgspec.Struct, frozen=True, kw_only=True):
    """Names of columns; None to find them by the usual names.

    Attributes:
        time: event time, which is read only if it is named.
        wording: how messages name these options.
    """

    user: str | None = None
    item: str | None = None
    rank: str | None = None
    score: str | None = None
    rating: str | None = None
    time: str | None = None
    time_unit: TimeUnit = "iso8601"
    wording: Wording = COMMAND


class Rows(NamedTuple):
    """Columns of one file, in its order.

    Attributes:
        worth: score or rating of each row, shape (rows,); None without such a column.
        times: event time of each row, microseconds since the epoch, shape (rows,); None without.
        ranks: rank of each row, lowest first, shape (rows,); None without such a column.
        by_rank: whether the ranks order the items, rather than the scores.
        unread: names of the other columns.
        binary: the first of those that has only 0 and 1, and has a 0; None without.
        numeric: the first of those that has other numbers only; None without, or if a score or
            rank orders the rows.
        idle: users without a row, whose list or interactions are empty; None without.
    """

    users: Any
    items: Any
    worth: Array | None = None
    times: IntArray | None = None
    ranks: Array | None = None
    by_rank: bool = False
    unread: Sequence[str] = ()
    binary: str | None = None
    numeric: str | None = None
    idle: Any = None

    def take(self, rows: IntArray) -> Rows:
        """These rows, in this order."""
        return Rows(
            self.users.take(arrow().array(rows)),
            self.items.take(arrow().array(rows)),
            None if self.worth is None else self.worth[rows],
            None if self.times is None else self.times[rows],
            None if self.ranks is None else self.ranks[rows],
            self.by_rank,
        )


def recommendation_rows(path: str | FileTable, names: Names) -> Rows:
    """The rows of a file or frame of recommendations: user, item and, if present, score or rank."""
    scores, ranks = ("score", names.score, _SCORE), ("rank", names.rank, _RANK)
    return _rows(path, names, "recommendations", scores, ranks)


def truth_rows(path: str | FileTable, names: Names) -> Rows:
    """The rows of a file or frame of interactions: user, item and, if present, rating."""
    return _rows(path, names, "truth", ("rating", names.rating, _RATING))


def refuse_unread_scores(path: str, shown: Rows, wording: Wording) -> None:
    """Raise a SourceError if the order of the file would hide a column that may be a score."""
    if shown.numeric is not None:
        name = _bare(shown.numeric)
        score, rank = wording.column("score", name), wording.column("rank", name)
        raise SourceError(
            path,
            f"no column has a usual name of a score or rank, and {shown.numeric!r} has numbers",
            f"if it orders the items, give {score} (highest first) or {rank} (lowest first); if "
            f"the rows are in order, {wording.option('ties', 'arrival')}",
        )


_Role: TypeAlias = tuple[str, str | None, Sequence[str]]
"""What a column holds, its given name, and its usual names."""


def _rows(
    path: str | FileTable, names: Names, file: str, worth: _Role, rank: _Role | None = None
) -> Rows:
    """`file`: "recommendations" or "truth"."""
    table = join_tables(path)
    unread = set(table.names)

    def holds(_role: str, named: str | None, usual: Sequence[str]) -> bool:
        return bool(named or _find_column(None, usual, table.names))

    def column(role: str, named: str | None, usual: Sequence[str]) -> Any:
        name = _find_column(named, usual, table.names)
        if name is None:
            raise _missing_column(table, role, named, names.wording)
        unread.discard(name)
        return table.column(name, f"name it with {names.wording.column(role)}")

    user = column(f"{file}.user", names.user, _USER)
    users = ids_of(user)
    items = ids_of(column(f"{file}.item", names.item, _ITEM))
    scored = holds(*worth)
    by_rank = rank is not None and holds(*rank) and bool(names.rank or not scored)
    ranks = None
    if rank is not None and holds(*rank):
        # Ranks that order nothing are only compared with the scores.
        with nullcontext() if by_rank else suppress(SourceError):
            ranks = numbers_of(column(*rank))
    numbers = numbers_of(column(*worth)) if scored else None
    times = times_of(column("time", names.time, ()), names.time_unit) if names.time else None
    others = [name for name in table.names if name in unread]
    ordered = rank is None or scored or ranks is not None
    return Rows(
        users=users,
        items=items,
        worth=numbers,
        times=times,
        ranks=ranks,
        by_rank=by_rank,
        unread=others,
        binary=next((name for name in others if _is_binary(table, name)), None),
        numeric=None if ordered else next((x for x in others if _is_numeric(table, x)), None),
        idle=None if table.idle is None else ids_of(user.of(table.idle)),
    )


def _missing_column(
    table: FileTable, role: str, named: str | None, wording: Wording
) -> SourceError:
    problem = f"no column has a usual name of the {role.rpartition('.')[2]}"
    if named:
        problem = f"no column {named!r}"
    option = wording.option("time", "NAME") if role == "time" else wording.column(role)
    remedy = f"name it with {option}"
    if table.text is not None:
        remedy += "; the first line must have the names"
    return SourceError(table.path, f"{problem}; {table.listing}", remedy)


def _values(table: FileTable, name: str) -> Any:
    """The numbers or texts of a column, or None."""
    if table.names.count(name) > 1:
        return None
    values, types = table.content[name], arrow().types
    kinds = (types.is_primitive, types.is_string, types.is_large_string)
    return values if any(kind(values.type) for kind in kinds) else None


def _is_numeric(table: FileTable, name: str) -> bool:
    """Whether a column has only numbers, and others than 0 and 1."""
    values = _values(table, name)
    # A column without a name is the index that pandas writes.
    if not name or values is None or arrow().types.is_temporal(values.type):
        return False
    texts = _texts(values.slice(0, 1000))
    return not texts <= _BINARY and all(finite(text) is not None for text in texts)


def _is_binary(table: FileTable, name: str) -> bool:
    values = _values(table, name)
    # Most columns are ruled out by their first rows.
    if values is None or not _texts(values.slice(0, 100)) <= _BINARY:
        return False
    texts = _texts(values)
    return texts <= _BINARY and bool(texts & _ZEROS)


def _texts(values: Any) -> set[str]:
    return {str(value).lower() for value in values.unique().to_pylist()}


def _find_column(named: str | None, usual: Sequence[str], header: Sequence[str]) -> str | None:
    """The named column, or else the first one with a usual name."""
    if named:
        return next((column for column in header if named in (column, _bare(column))), None)
    plain = {_bare(name).lower().replace("_", "").replace("-", ""): name for name in header}
    return next((plain[name] for name in usual if name in plain), None)


def _bare(name: str) -> str:
    """The name without the type suffix of RecBole's atomic files: user_id:token."""
    return name.partition(":")[0].strip()


def is_trec(path: str, file: TrecFile) -> bool:
    """Whether the first line of a file looks like one of trec_eval; always False for a pipe."""
    paths = expand(path, is_table)
    if len(paths) > 1 or size(paths[0]) is None:
        return False
    fields, at = _TREC[file]
    first = next(islice(lines(paths[0]), 1), b"").decode("utf-8", "replace").split()
    return len(first) == len(fields.split()) and finite(first[at]) is not None


def trec_rows(path: str, file: TrecFile) -> Rows:
    """The rows of a trec_eval file; the number is the score of results, the rating of qrels.

    Scores are rounded to 32-bit floats, as in trec_eval, which creates the same ties.
    """
    (form, at), text = _TREC[file], arrow().large_string()
    users, items, worth = [], [], []
    for row, line in enumerate(lines(path), 1):
        fields = _fields(path, row, line)
        number = finite(fields[at]) if len(fields) == len(form.split()) else None
        if number is None:
            problem = f"row {row}: found {line[:60].decode('utf-8', 'replace')!r}"
            raise SourceError(path, problem, f"trec_eval's {file} are lines of: {form}")
        users.append(fields[0])
        items.append(fields[2])
        worth.append(number)
    numbers = np.array(worth, np.float64)
    if file == "results":
        with np.errstate(over="ignore"):
            numbers = numbers.astype(np.float32).astype(np.float64)
    return Rows(arrow().array(users, text), arrow().array(items, text), numbers)


def _fields(path: str, row: int, line: bytes) -> list[str]:
    try:
        return line.decode().split()
    except UnicodeDecodeError as error:
        problem = f"row {row}: byte 0x{line[error.start]:02x} is not UTF-8"
        raise SourceError(path, problem, "save the file as UTF-8 text") from None


def common_topics(results: Rows, qrels: Rows) -> tuple[Rows, Rows, int]:
    """The rows of topics in both files, and the number of other topics."""
    topics = [set(rows.users.to_pylist()) for rows in (results, qrels)]
    both = arrow().array(sorted(topics[0] & topics[1]), arrow().large_string())
    kept = [
        rows.take(np.flatnonzero(arrow("compute").is_in(rows.users, value_set=both)))
        for rows in (results, qrels)
    ]
    return kept[0], kept[1], len(topics[0] ^ topics[1])


def row_warnings(shown: Rows, truth: Rows, wording: Wording) -> Iterator[str]:
    """Warnings if the rows of two files look wrong, one sentence each."""
    yield from _doubtful_order(shown, wording)
    yield from _repeat_warning(shown)
    yield from _unread_ratings(truth, wording)
    files = {"recommendations": shown, "truth": truth}
    empty = [name for name, rows in files.items() if not len(rows.users)]
    if len(empty) == 1:
        yield f"{wording.option(empty[0])} has no rows."
    yield from _unlike_ids(shown, truth)


def _doubtful_order(shown: Rows, wording: Wording) -> Iterator[str]:
    if shown.worth is None and not shown.by_rank and shown.unread:
        yield (
            "the recommendations keep the order of their file, because no column has a usual name "
            f"of a score or rank (not read: {', '.join(shown.unread)}); name it with "
            f"{wording.column('score')} or {wording.column('rank')}."
        )
    if shown.by_rank and _are_constant(shown):
        yield (
            "all ranks of a user's recommendations are equal, so they keep the order of their "
            "file: is the column a rank?"
        )
    if _contradict(shown):
        yield (
            "scores and ranks of the recommendations order the items differently; they are sorted "
            f"by score, or with {wording.column('rank')} by rank."
        )


def _unread_ratings(truth: Rows, wording: Wording) -> Iterator[str]:
    unread = _find_column(None, _ONLY_SCORE, truth.unread)
    if unread is not None:
        yield (
            f"{wording.option('truth')} has a column {unread!r}, which is not read: name it with "
            f"{wording.column('rating', _bare(unread))} if it is the gain; or are "
            f"{wording.option('recommendations')} and {wording.option('truth')} swapped?"
        )
    if truth.worth is None and truth.binary is not None:
        yield (
            f"{wording.option('truth')} has a column {truth.binary!r} of 0 and 1, which is not "
            "read, so every row is an interaction; if 0 is none, give "
            f"{wording.column('rating', _bare(truth.binary))}."
        )


def _unlike_ids(shown: Rows, truth: Rows) -> Iterator[str]:
    pairs = (("user", shown.users, truth.users), ("item", shown.items, truth.items))
    for what, mine, theirs in pairs:
        alike = [ids_of.unique() for ids_of in of_one_kind([mine, theirs])]
        shared = arrow("compute").is_in(alike[0], value_set=alike[1])
        both = arrow("compute").sum(shared, min_count=0).as_py()
        alone = [len(ids_of) - both for ids_of in alike]
        if what == "user" and both and any(alone) and shown.times is None:
            yield (
                f"users in both files: {both:,}; without recommendations: {alone[1]:,}; without "
                f"truth: {alone[0]:,}. All of them are events."
            )
        if len(mine) and len(theirs) and not both:
            yield (
                f"no {what} is in both files: one starts with {mine[0].as_py()!r:.40}, the other "
                f"with {theirs[0].as_py()!r:.40}; write their ids alike."
            )


def _are_constant(shown: Rows) -> bool:
    """Whether no user has two ranks, although some have several items."""
    if shown.ranks is None or not len(shown.users):
        return False
    users = _codes(shown.users)
    order = np.lexsort((shown.ranks, users))
    same = np.diff(users[order]) == 0
    return bool(same.any() and not np.diff(shown.ranks[order])[same].any())


def _contradict(shown: Rows) -> bool:
    """Whether a higher score has a later rank in the list of any user, and scores are used."""
    if shown.worth is None or shown.ranks is None or shown.by_rank:
        return False
    users = _codes(shown.users)
    order = np.lexsort((shown.ranks, -shown.worth, users))
    same = np.diff(users[order]) == 0
    return bool((same & (np.diff(shown.ranks[order]) < 0)).any())


def _repeat_warning(shown: Rows) -> Iterator[str]:
    """A warning if a list has an item several times; spans of time may repeat one."""
    if shown.times is not None or not len(shown.users):
        return
    users, items = _codes(shown.users), _codes(shown.items)
    pairs = users * (int(items.max()) + 1) + items
    repeats = len(pairs) - len(arrow().array(pairs).unique())
    if repeats:
        order = np.argsort(pairs, kind="stable")
        row = int(order[1:][np.diff(pairs[order]) == 0].min())
        user, item = shown.users[row].as_py(), shown.items[row].as_py()
        yield (
            f"rows of recommendations that repeat an item of the same user: {repeats:,}, for "
            f"example item {item!r:.40} of user {user!r:.40}; each takes a rank of the list. "
            "Remove them, unless the recommender repeats items."
        )


def _codes(ids: Any) -> IntArray:
    """An integer for each id; equal ids have equal ones."""
    codes: IntArray = ids.dictionary_encode().indices.to_numpy().astype(np.int64)
    return codes


def by_span(shown: Rows, truth: Rows, every: int | None) -> Iterator[tuple[int | None, Rows, Rows]]:
    """The start of each span of time, ascending, with the rows of both files in it.

    Without `every`, or without times, all rows are in one span without a start.
    """
    if every is None or shown.times is None or truth.times is None:
        yield None, shown, truth
        return
    none = np.zeros(0, np.int64)
    parts = [_split(span_starts(times, every)) for times in (shown.times, truth.times)]
    for start in sorted(parts[0].keys() | parts[1].keys()):
        mine, theirs = (part.get(start, none) for part in parts)
        yield start, shown.take(mine), truth.take(theirs)


def _split(starts: IntArray) -> dict[int, IntArray]:
    """The indices of the rows of each start, in their order."""
    order = np.argsort(starts, kind="stable")
    begins, edges = np.unique(starts[order], return_index=True)
    return dict(zip(begins.tolist(), np.split(order, edges[1:]), strict=True)) if len(order) else {}


def join_rows(
    shown: Rows, truth: Rows, *, ties: Ties, ids: Kind, scores: bool, named: bool
) -> tuple[Kind, Columns]:
    """One event for each user of either file, in the order of first appearance.

    A user's items are sorted by descending score, or by rank; else they keep the file's order. A
    user in only the truth has an empty list, a user in only the recommendations no interactions. A
    rating is the gain of an interaction.

    `ids`: "integer" converts items that are text to integers. `scores` and `named`: whether the
    events have scores and users.

    Returns:
        The kind of the item ids, which is integer only if both files have integers; the events.
    """
    users, by_shown, by_truth = _users(shown, truth)
    items, acts = of_one_kind([shown.items, truth.items], ids)
    order, place = _rank_rows(by_shown, items, shown, ties), np.argsort(by_truth, kind="stable")
    edges, bounds = _offsets(by_shown, len(users)), _offsets(by_truth, len(users))
    gains = None if truth.worth is None or (truth.worth == 1).all() else truth.worth
    kind: Kind = "integer" if arrow().types.is_integer(items.type) else "string"
    return kind, Columns(
        users=users if named else None,
        recommendations=_lists(edges, items.take(order)),
        interactions=_lists(bounds, acts.take(place)),
        gains=None if gains is None else (gains[place], bounds),
        scores=(shown.worth[order], edges) if scores and shown.worth is not None else None,
    )


def _users(shown: Rows, truth: Rows) -> tuple[Any, IntArray, IntArray]:
    """The distinct users, and the index of the user of each row."""
    idle = [rows.idle for rows in (shown, truth) if rows.idle is not None]
    arrays = of_one_kind([shown.users, truth.users, *idle])
    encoded = arrow().concat_arrays(arrays).dictionary_encode()
    codes = encoded.indices.to_numpy().astype(np.int64)
    edge = len(shown.users)
    return encoded.dictionary, codes[:edge], codes[edge : edge + len(truth.users)]


def _rank_rows(users: IntArray, items: Any, shown: Rows, ties: Ties) -> IntArray:
    """The indices of the rows by user, then by rank."""
    keys = [users]
    if shown.by_rank and shown.ranks is not None:
        keys.insert(0, shown.ranks)
    elif shown.worth is not None:
        keys.insert(0, -shown.worth)
        if ties != "arrival":
            keys.insert(0, _id_order(items) * (1 if ties == "id_asc" else -1))
    return np.lexsort(keys)


def _id_order(items: Any) -> IntArray:
    """The position of each id in ascending order; strings compare by bytes."""
    encoded = items.dictionary_encode()
    order = np.empty(len(encoded.dictionary), np.int64)
    sorted_by_id = arrow("compute").sort_indices(encoded.dictionary).to_numpy()
    order[sorted_by_id] = np.arange(order.size)
    codes: IntArray = encoded.indices.to_numpy()
    return order[codes]


def _offsets(users: IntArray, count: int) -> IntArray:
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(np.bincount(users, minlength=count))))


def _lists(offsets: IntArray, values: Any) -> Any:
    return arrow().LargeListArray.from_arrays(offsets, values)
