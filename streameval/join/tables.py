"""The join of complete Arrow tables: impressions and interactions become lists of events.

The result depends on the rows of both tables, by the rules of `kernel`: neither their order nor
their division into buckets by key changes a row, an outcome or a bit of a metric.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args
from zlib import crc32

import msgspec
import numpy as np

from streameval.decoding.fields import gain_problems
from streameval.engine.windows.times import SECOND, duration_of, duration_problem
from streameval.events import LARGEST_GAIN
from streameval.events.arrow import (
    ArrowTable,
    as_table,
    column_of,
    in_microseconds,
    list_column,
    null_rows,
    with_user_column,
)
from streameval.events.errors import InvalidEventError, UsageError
from streameval.events.extras import import_extra
from streameval.events.gains import reduce_gains
from streameval.events.problems import check_types
from streameval.events.ragged import IdColumn, Ragged, matrix_column
from streameval.events.rules import RESERVED
from streameval.events.saved_states import damaged
from streameval.events.times import outside_range
from streameval.join.attribution import FOREVER, AttributionKey, OutcomeCounts, counts_type
from streameval.join.kernel import (
    Contents,
    InteractionKeys,
    ListColumns,
    are_copies,
    are_in_lists,
    interaction_content,
    last_touches,
    latest_lists,
    list_content,
    tuple_codes,
)
from streameval.statistics.arrays import BoolArray, IntArray

RowOutcome: TypeAlias = Literal[
    "counted", "duplicate", "late", "orphan", "ignored", "invalid", "open"
]

ROW_OUTCOMES: Final[tuple[RowOutcome, ...]] = get_args(RowOutcome)
"""The outcome of a row by its code; see `OUTCOMES` of the daemon. Only `closed` returns "open" (not
decided yet) and "late"."""

_COUNTED, _DUPLICATE, _LATE, _ORPHAN, _IGNORED, _INVALID, _OPEN = range(len(ROW_OUTCOMES))

OutcomeCodes: TypeAlias = np.ndarray[tuple[Any, ...], np.dtype[np.int8]]
"""Outcomes of rows: indices in ROW_OUTCOMES, shape (rows,)."""

_MADE: Final = ("interactions", "gains", "typed")
"""The columns that a join adds to impressions."""


class Attribution(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rules of a join of tables; the keys of [attribution] and its interactions.

    Attributes:
        key: "request_id": an interaction names its list; "user_item": it belongs to the latest
            list that showed the item to the user.
        window: longest time from a list to an interaction that counts; at least 1s.
        lateness: added to the window, the longest time between two copies of an interaction, which
            have one event id. No row is late, because a table has no order.
        combine: gain of several interactions with one item: the largest, or the sum.
        per: columns of the impressions by which "user_item" attributes separately.
        types: type -> gain, where there is no column `gain`; other types do not count. Without
            any, all types count, as 1.
        ignore: types that do not count.

    Raises:
        ConfigError: a value is not allowed.

    Example:
        >>> Attribution(window="30s", types={"click": 1, "purchase": 10}).key
        'request_id'
    """

    key: AttributionKey = "request_id"
    window: str = "30m"
    lateness: str = "2m"
    combine: Literal["max", "sum"] = "max"
    per: list[str] = []
    types: dict[str, float] = {}
    ignore: list[str] = []

    def __post_init__(self) -> None:
        check_types(self, self._problems())

    def _problems(self) -> Iterator[tuple[str, str]]:
        for key, least in (("window", SECOND), ("lateness", 0)):
            if problem := duration_problem(getattr(self, key), least):
                yield key, problem
        if self.per and self.key == "request_id":
            yield "per", 'a request id names one list; per is for key = "user_item".'
        yield from gain_problems(self.types)
        for name in self.ignore:
            if name in self.types:
                yield "ignore", f"{name!r} has a gain in types; it cannot do both."

    @property
    def key_column(self) -> str:
        """The column of the join key in both tables."""
        return "request_id" if self.key == "request_id" else "users"


class RowCounts(OutcomeCounts, kw_only=True, gc=False):
    """Rows of one table or stream of tables by outcome.

    Attributes:
        unlisted: orphans whose users had no list at all in the window before.
    """

    unlisted: int = 0


class JoinedTables(NamedTuple):
    """The result of a join.

    Attributes:
        lists: the impressions that count, in their order, with the columns `interactions` (items,
            each once), `gains` (null where all are 1) and `typed` (structs of item, gain and type,
            of interactions with a type): a table for `evaluate`, `partials` and
            `Accumulator.update_many`.
        impressions: outcome of each row, a code of ROW_OUTCOMES.
        interactions: the same of interactions.
        outside: True for interactions that count, with an item that their list did not show.
        unlisted: True for orphans of users without any list in the window before; False where
            interactions name their list.
        hidden_losses: True for lists with an item with gains above and below 0, of which the
            largest counts.

    Example:
        >>> import pyarrow
        >>> lists = {"recommendations": [["a"]], "times": [0], "request_id": ["r"]}
        >>> result = joined(pyarrow.table(lists), None, Attribution())
        >>> [ROW_OUTCOMES[code] for code in result.impressions], result.counts[0].counted
        (['counted'], 1)
    """

    lists: Any
    impressions: OutcomeCodes
    interactions: OutcomeCodes
    outside: BoolArray
    unlisted: BoolArray
    hidden_losses: BoolArray

    @property
    def counts(self) -> tuple[RowCounts, RowCounts]:
        """Number of impressions and of interactions by outcome; they add up to the rows."""
        return _counts_of(self.impressions), self.counts_of(slice(None))

    def counts_of(self, rows: slice) -> RowCounts:
        """Number of these interactions by outcome."""
        return _counts_of(self.interactions[rows], self.outside[rows], self.unlisted[rows])


class Stream(NamedTuple):
    """A stream of interactions with types and gains of its own; ids are compared within it.

    `table`: None without rows.
    """

    table: Any
    rule: Attribution


def joined(
    impressions: ArrowTable | None, interactions: ArrowTable | None, rule: Attribution
) -> JoinedTables:
    """Join impressions with their interactions.

    Of impressions with one request id (and user, with "user_item") within `window`, the earliest
    counts, and of interactions with one event id and key within `window` and `lateness`; of equal
    times, the one with the smallest content. Rows without an id are never copies. A row with a null
    key, time, item or list, with a gain that is not finite, or without a type where the rule has
    `types`, is invalid.

    Args:
        impressions: a table of Arrow, Polars, pandas or DuckDB with the columns `recommendations`,
            `times`, `request_id` or `users` (or `user`) or both, and any others, which stay. None
            for a bucket without any.
        interactions: a table with the columns `times`, `item`, and `request_id` or `users` (or
            `user`); optionally `type`, `gain`, `event_id`, and `stream`, within which event ids are
            compared. None for a bucket without any.
        rule: the rules of the join.

    Raises:
        InvalidEventError: a table lacks a column, or a column has the wrong type.
        MissingExtraError: pyarrow is not installed.

    Example:
        >>> import pyarrow
        >>> impressions = pyarrow.table({
        ...     "recommendations": [["a", "b"], ["c"]], "times": [0, 5_000_000],
        ...     "request_id": ["r1", "r2"],
        ... })
        >>> clicks = pyarrow.table({
        ...     "request_id": ["r1", "r9"], "item": ["b", "a"], "times": [1_000_000, 2_000_000],
        ... })
        >>> result = joined(impressions, clicks, Attribution())
        >>> result.lists["interactions"].to_pylist(), result.counts[1].orphan
        ([['b'], []], 1)
    """
    streams = [] if interactions is None else [Stream(interactions, rule)]
    return join_streams(impressions, streams, rule)


def join_streams(
    impressions: ArrowTable | None, streams: Sequence[Stream], rule: Attribution
) -> JoinedTables:
    """Join impressions with several streams of interactions; see `joined`.

    Returns:
        The outcomes of interactions stream by stream.
    """
    join = _Join(_Impressions(impressions, rule), _reports(streams), rule)
    rows = np.flatnonzero(join.impressions == _COUNTED)
    return JoinedTables(
        join.lists(rows),
        join.impressions,
        join.interactions,
        join.outside(join.interactions == _COUNTED),
        join.unlisted,
        join.hidden_losses(rows),
    )


class OpenRows(NamedTuple):
    """The state of `closed` between steps.

    Attributes:
        impressions: open rows, and closed ones that later rows may repeat; None without any.
        interactions: the same of interactions.
        until: no row before it is accepted, microseconds; None before the first step.

    Example:
        >>> OpenRows().until is None
        True
    """

    impressions: Any = None
    interactions: Any = None
    until: int | None = None


class Closed(NamedTuple):
    """The result of a step of a join.

    Attributes:
        lists: those that are final, as in `JoinedTables`.
        counts: outcomes that are new in this step, of impressions and of interactions.
        state: for the next step.

    Example:
        >>> step = closed(OpenRows(), (None, None), Attribution(), 1_000_000)
        >>> step.lists.num_rows, step.counts[0].records, step.state.until
        (0, 0, 1000000)
    """

    lists: Any
    counts: tuple[RowCounts, RowCounts]
    state: OpenRows


def closed(
    state: OpenRows,
    new: tuple[ArrowTable | None, ArrowTable | None],
    rule: Attribution,
    until: int | None,
) -> Closed:
    """Take a step of a join of streams: add rows, and close the lists whose window is over.

    With any steps and any watermarks that no row is older than, all lists together are those of
    `joined`, and the outcomes add up to its outcomes.

    Args:
        state: `OpenRows()` at first.
        new: impressions and interactions that arrived; see `joined`.
        rule: the rules of the join.
        until: the watermark in microseconds: later rows with an earlier time are late. None at the
            end of all streams.

    Example:
        >>> import pyarrow
        >>> lists = pyarrow.table({"recommendations": [["a"]], "times": [0], "request_id": ["r"]})
        >>> click = pyarrow.table({"request_id": ["r"], "item": ["a"], "times": [60_000_000]})
        >>> step = closed(OpenRows(), (lists, None), Attribution(window="2m"), 30_000_000)
        >>> step.lists.num_rows
        0
        >>> last = closed(step.state, (None, click), Attribution(window="2m"), None)
        >>> last.lists["interactions"].to_pylist(), last.counts[1].counted
        ([['a']], 1)
    """
    edge, previous = FOREVER if until is None else until, state.until
    if previous is not None and edge < previous:
        raise UsageError(f"until={until}: a watermark does not go back, and it was {previous}.")
    impressions_table, reports = new
    arrived = None if impressions_table is None else _with_progress(as_table(impressions_table))
    lists = _Impressions(concatenate(state.impressions, arrived), rule)
    streams = [] if reports is None else [Stream(reports, rule)]
    interactions = concatenate(state.interactions, _with_progress(_reports(streams)))
    join = _Join(lists, interactions, rule, until=edge, late_before=previous)
    final = (join.impressions == _COUNTED) & (lists.times + duration_of(rule.window) < edge)
    impressions = np.where((join.impressions == _COUNTED) & ~final, _OPEN, join.impressions)
    # The outcome of an interaction is returned once; it stays as long as a copy may come.
    is_reported = _progress(interactions) == _REPORTED
    outcomes = np.where(is_reported, _OPEN, join.interactions)
    span = duration_of(rule.window) + duration_of(rule.lateness)
    decided = (join.interactions == _COUNTED) | (join.interactions == _ORPHAN)
    stay = (decided & (join.times + span >= edge)) | (join.interactions == _OPEN)
    unlisted = join.unlisted & (outcomes == _ORPHAN)
    counts = (
        _counts_of(impressions),
        _counts_of(outcomes, join.outside(outcomes == _COUNTED), unlisted),
    )
    rest = OpenRows(
        _rest(lists.table, impressions == _OPEN, np.full(final.size, _ACCEPTED, np.int8)),
        _rest(interactions, stay, np.where(decided, _REPORTED, _ACCEPTED).astype(np.int8)),
        edge,
    )
    return Closed(join.lists(np.flatnonzero(final)), counts, rest)


def concatenate(*tables: Any, side: str = "one side") -> Any:
    """The tables of one side as one table; None without any.

    Raises:
        InvalidEventError: a column has unlike types.
    """
    present = [table for table in tables if table is not None]
    if not present:
        return None
    # Columns without rows may have any type.
    present = [table for table in present if table.num_rows] or present[:1]
    arrow = _arrow()
    try:
        return arrow.concat_tables(present, promote_options="permissive")
    except (arrow.ArrowInvalid, arrow.ArrowTypeError, arrow.ArrowNotImplementedError) as error:
        detail = f"tables of {side} have unlike columns: {' '.join(str(error).split())}"
        raise InvalidEventError("wrong_type", f"{detail}; write them alike") from error


def pieces(
    table: ArrowTable,
    side: Literal["impressions", "interactions"],
    rule: Attribution,
    buckets: int,
) -> Any:
    """Divide a table by the key of a join, so that an engine can group the pieces by bucket.

    Args:
        table: impressions or interactions, or a part of them.
        side: which.
        rule: has the key.
        buckets: number of buckets, equal for all tables of both sides; about one for each 1,000,000
            rows.

    Returns:
        A table with a row for each bucket that has rows: `bucket`, `side`, and `rows`,
        those rows as an Arrow stream. It has the same schema for both sides.

    Example:
        >>> import pyarrow
        >>> columns = {"request_id": ["r1", "r2"], "item": ["a", "b"], "times": [1, 2]}
        >>> clicks = pyarrow.table(columns)
        >>> parts = pieces(clicks, "interactions", Attribution(), 1)
        >>> sides(parts)[1].equals(clicks)
        True
    """
    if buckets < 1:
        raise UsageError(f"buckets={buckets}: give 1 or more.")
    if side not in _SIDES:
        raise UsageError(f"side={side!r}: give one of {', '.join(map(repr, _SIDES))}.")
    all_rows = as_table(table)
    keys = _ids(
        _required_column(with_user_column(all_rows), rule.key_column, side), rule.key_column
    )
    keys = keys.dictionary_encode()
    hashes = [crc32(str(key).encode()) % buckets for key in keys.dictionary.to_pylist()]
    # Rows without a key are invalid wherever they are, so they are spread evenly.
    codes = _fill_nulls(keys.indices, -1)
    numbers = np.arange(codes.size) % buckets
    numbers[codes >= 0] = np.array(hashes, np.int64)[codes[codes >= 0]]
    order = np.argsort(numbers, kind="stable")
    starts = np.flatnonzero(np.diff(numbers[order], prepend=-1))
    rows = (
        [_ipc_stream(all_rows.take(part)) for part in np.split(order, starts[1:])]
        if len(order)
        else []
    )
    bucket_numbers = numbers[order][starts].tolist()
    arrow = _arrow()
    schema = arrow.schema(
        {"bucket": arrow.int64(), "side": arrow.string(), "rows": arrow.large_binary()}
    )
    return arrow.table(
        {"bucket": bucket_numbers, "side": [side] * len(bucket_numbers), "rows": rows}, schema
    )


_SIDES: Final = ("impressions", "interactions")


def sides(rows: Iterable[Mapping[str, Any]] | ArrowTable) -> tuple[Any, Any]:
    """The impressions and the interactions of pieces, for `joined`; None for a side without any.

    `rows`: of `pieces`, as mappings or as a table of Arrow, Polars or pandas.

    Raises:
        DamagedStateError: a row is not one of `pieces`.
        InvalidEventError: pieces of a side have columns of unlike types.

    Example:
        >>> import pyarrow
        >>> clicks = pyarrow.table({"request_id": ["r1"], "item": ["a"], "times": [1]})
        >>> sides(pieces(clicks, "interactions", Attribution(), 8))[0] is None
        True
    """
    mappings = as_table(rows).to_pylist() if isinstance(rows, ArrowTable) else rows
    tables: dict[str, list[Any]] = {side: [] for side in _SIDES}
    arrow = _arrow()
    for row in mappings:
        try:
            tables[row["side"]].append(arrow.ipc.open_stream(row["rows"]).read_all())
        except (KeyError, TypeError, ValueError, OSError, arrow.ArrowException) as error:
            problem = f"{row!r:.80} is not a row of pieces: {error}"
            raise damaged("piece", problem) from error
    impressions, interactions = (concatenate(*tables[side], side=side) for side in _SIDES)
    return impressions, interactions


def _ipc_stream(table: Any) -> bytes:
    sink = _arrow().BufferOutputStream()
    with _arrow().ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


class _Impressions:
    """Impressions as columns.

    Attributes:
        table: the rows; without any, a table without columns but the required ones.
        keys: the key of each row as an Arrow array; null without a valid one.
        times: microseconds; 0 for rows without a valid time.
        invalid: True for invalid rows.
    """

    def __init__(self, table: ArrowTable | None, rule: Attribution) -> None:
        all_columns = _no_impressions(rule) if table is None else as_table(table)
        self.table = with_user_column(all_columns)
        for name in _MADE:
            if name in self.table.column_names:
                detail = f"impressions have a column {name!r}, which the join makes; leave it out"
                raise InvalidEventError("wrong_type", detail)
        self.keys = _ids(
            _required_column(self.table, rule.key_column, "impressions"), rule.key_column
        )
        lists = _required_column(self.table, "recommendations", "impressions")
        self.times, untimed = _times(_required_column(self.table, "times", "impressions"))
        self.invalid = untimed | null_rows(self.keys) | null_rows(lists)
        self._per = [
            _column_codes(_required_column(self.table, name, "impressions")) for name in rule.per
        ]

    @property
    def requests(self) -> Any:
        """The request id of each row as an Arrow array; None without ids."""
        if "request_id" not in self.table.column_names:
            return None
        return _ids(column_of(self.table, "request_id"), "request_id")

    @property
    def groups(self) -> IntArray:
        """The code of the values of `per` of each row."""
        return tuple_codes(*self._per) if self._per else np.zeros(len(self.times), np.int64)

    def items(self, rows: IntArray) -> IdColumn:
        """The recommendations of rows."""
        lists = list_column("recommendations", self.table["recommendations"].take(rows))
        if isinstance(lists, np.ndarray):
            return IdColumn(matrix_column("recommendations", lists))
        return lists

    @property
    def contents(self) -> Contents:
        """The contents of the rows, see `kernel.list_content`."""
        return Contents(self._texts, self._are_equal)

    @property
    def _content_columns(self) -> list[str]:
        """The names of the columns that are part of the content."""
        return [
            name for name in sorted(self.table.column_names) if name not in ("times", _PROGRESS)
        ]

    def _are_equal(self, first: IntArray, second: IntArray) -> BoolArray:
        lists = self.items(np.concatenate((first, second))).ragged
        equal = lists.rows(0, first.size).equals(lists.rows(first.size, len(lists)))
        for name in self._content_columns:
            if name != "recommendations":
                equal &= _equal_values(self.table[name], first, second)
        return equal

    def _texts(self, rows: IntArray) -> list[str]:
        columns = {name: self.table[name].take(rows).to_pylist() for name in self._content_columns}
        lists = columns.pop("recommendations")
        requests = columns.pop("request_id", [None] * len(lists))
        users = columns.pop("users", [None] * len(lists))
        others = zip(*columns.values(), strict=True) if columns else [()] * len(lists)
        return [
            list_content(str(request or ""), user, items, *map(str, more))
            for request, user, items, more in zip(requests, users, lists, others, strict=True)
        ]


class _Join:
    """The outcomes of all rows, and the pairs of interactions and lists.

    Attributes:
        impression_columns: the impressions.
        impressions, interactions: outcomes.
        times: of interactions.
        unlisted: see `JoinedTables`.
    """

    def __init__(
        self,
        impression_columns: _Impressions,
        reports: Any,
        rule: Attribution,
        *,
        until: int = FOREVER,
        late_before: int | None = None,
    ) -> None:
        self.impression_columns, self.reports, self._rule = impression_columns, reports, rule
        self._window = duration_of(rule.window)
        self.times = _numbers(reports["times"])
        self.interactions = _numbers(reports["outcome"]).copy()
        self.impressions = np.where(impression_columns.invalid, _INVALID, _COUNTED).astype(np.int8)
        if late_before is not None:
            for outcomes, times, table in (
                (self.impressions, impression_columns.times, impression_columns.table),
                (self.interactions, self.times, reports),
            ):
                late = (outcomes != _INVALID) & (times < late_before)
                outcomes[late & (_progress(table) == _NEW)] = _LATE
        for outcomes, times in (
            (self.impressions, impression_columns.times),
            (self.interactions, self.times),
        ):
            outcomes[(outcomes == _COUNTED) & (times >= until)] = _OPEN
        self._keys, self._interaction_keys = _shared_codes(
            rule.key_column, impression_columns.keys, reports["key"]
        )
        self._refuse_copies()
        self._items, self.names = _sorted_codes(reports["item"])
        self.unlisted = np.zeros(self.interactions.size, np.bool_)
        self._match()

    def lists(self, rows: IntArray) -> Any:
        """These impressions with their interactions, combined."""
        arrow, table = _arrow(), self.impression_columns.table
        clicks, of = self._clicks, self._lists
        number = np.full(table.num_rows, -1, np.int64)
        number[rows] = np.arange(rows.size)
        is_selected = number[of] >= 0
        clicks, of = clicks[is_selected], number[of[is_selected]]
        gains, items = _numbers(self.reports["gain"])[clicks], self._items[clicks]
        width = int(self._items.max(initial=0)) + 1
        groups = of * width + items
        first, combined, _ = reduce_gains(groups, gains, self._rule.combine)
        counts = np.bincount(of[first], minlength=rows.size)
        offsets = np.concatenate(([0], np.cumsum(counts)))
        part = table if rows.size == table.num_rows else table.take(rows)
        if _PROGRESS in part.column_names:
            part = part.drop_columns([_PROGRESS])
        columns = {
            "interactions": _lists(offsets, self.names.take(arrow.array(items[first]))),
            "gains": _gain_column(offsets, combined),
            "typed": self._typed_column(of, items, gains, clicks, rows.size),
        }
        for name, column in columns.items():
            part = part.append_column(name, column)
        return part

    def hidden_losses(self, rows: IntArray) -> BoolArray:
        """True for the lists with an item with gains above and below 0, if the largest counts."""
        gains = _numbers(self.reports["gain"])[self._clicks]
        if self._rule.combine != "max" or not (gains < 0).any():
            return np.zeros(rows.size, np.bool_)
        groups = tuple_codes(self._lists, self._items[self._clicks])
        first, _, hides_loss = reduce_gains(groups, gains, self._rule.combine)
        hidden: BoolArray = np.isin(rows, self._lists[first[hides_loss]])
        return hidden

    def outside(self, counted: BoolArray) -> BoolArray:
        """True for the interactions with an item that their list lacks."""
        outside = np.zeros(counted.size, np.bool_)
        if self._rule.key == "request_id":
            selected = counted[self._clicks]
            clicks, lists = self._clicks[selected], self._lists[selected]
            rows, of = np.unique(lists, return_inverse=True)
            items = self._item_codes(self.impression_columns.items(rows))
            outside[clicks] = ~are_in_lists(items, of, self._items[clicks])
        return outside

    def _refuse_copies(self) -> None:
        rule, window = self._rule, self._window
        rows = np.flatnonzero(self.impressions == _COUNTED)
        requests = self.impression_columns.requests
        if requests is not None and rows.size:
            ids = self._keys[rows]
            if rule.key == "user_item":
                ids = tuple_codes(ids, _shared_codes("request_id", requests)[0][rows])
            copies = are_copies(
                ids,
                self.impression_columns.times[rows],
                window,
                self.impression_columns.contents.of(rows),
            )
            self.impressions[rows[copies]] = _DUPLICATE
        rows = np.flatnonzero(self.interactions == _COUNTED)
        named = _shared_codes("event_id", self.reports["event_id"])[0][rows]
        rows, named = rows[named >= 0], named[named >= 0]
        # Numbers of rows, streams and keys are multiplied only for ids that repeat.
        repeated = np.bincount(named)[named] > 1 if named.size else named > 0
        rows, named = rows[repeated], named[repeated]
        if rows.size:
            (streams,) = _shared_codes("stream", self.reports["stream"])
            ids = tuple_codes(self._interaction_keys[rows], named, streams[rows])
            span = window + duration_of(rule.lateness)
            copies = are_copies(ids, self.times[rows], span, self._contents.of(rows))
            self.interactions[rows[copies]] = _DUPLICATE

    @property
    def _contents(self) -> Contents:
        """The contents of the interactions, see `kernel.interaction_content`."""
        columns = self.reports.select(["item", "type", "gain"])

        def texts(rows: IntArray) -> list[str]:
            values = (column.to_pylist() for column in columns.take(rows).columns)
            return [interaction_content(*row) for row in zip(*values, strict=True)]

        def are_equal(first: IntArray, second: IntArray) -> BoolArray:
            parts = [_equal_values(column, first, second) for column in columns.columns]
            equal: BoolArray = np.logical_and.reduce(parts)
            return equal

        return Contents(texts, are_equal)

    def _match(self) -> None:
        """Find the lists of the interactions; those without one are orphans."""
        impressions = np.flatnonzero(self.impressions == _COUNTED)
        clicks = np.flatnonzero(self.interactions == _COUNTED)
        keys, times = self._keys[impressions], self.impression_columns.times[impressions]
        clicked_keys, moments = self._interaction_keys[clicks], self.times[clicks]
        contents = self.impression_columns.contents.of(impressions)
        if self._rule.key == "request_id":
            lists = latest_lists(keys, times, clicked_keys, moments, self._window, contents)
            matched = np.flatnonzero(lists >= 0)
            lists = lists[matched]
        else:
            # The lists of users without interactions are left out.
            rows = np.flatnonzero(np.isin(keys, clicked_keys))
            items = self._item_codes(self.impression_columns.items(impressions[rows]))
            views = ListColumns(
                keys[rows], items, times[rows], self.impression_columns.groups[impressions[rows]]
            )
            queries = InteractionKeys(clicked_keys, self._items[clicks], moments)
            matched, lists = last_touches(views, queries, self._window, contents.of(rows))
            lists = rows[lists]
            orphans = np.setdiff1d(np.arange(clicks.size), matched)
            latest = latest_lists(
                keys[rows],
                times[rows],
                clicked_keys[orphans],
                moments[orphans],
                self._window,
                contents.of(rows),
            )
            self.unlisted[clicks[orphans[latest < 0]]] = True
        self._clicks, self._lists = clicks[matched], impressions[lists]
        orphan = np.ones(clicks.size, np.bool_)
        orphan[matched] = False
        self.interactions[clicks[orphan]] = _ORPHAN

    def _item_codes(self, lists: IdColumn) -> Ragged:
        """The items of lists by the codes of the items of interactions; -1 for others."""
        arrow, compute = _arrow(), import_extra("pyarrow.compute", "a join", "tables")
        ragged, names = lists.ragged, lists.names
        words = arrow.array(ragged.values) if names is None else arrow.array(names)
        if not len(words) or not len(self.names):
            return Ragged(np.full(ragged.values.size, -1, np.int64), ragged.offsets)
        if arrow.types.is_integer(words.type) != arrow.types.is_integer(self.names.type):
            raise _unlike("item ids", words.type, self.names.type)
        codes = compute.index_in(words.cast(self.names.type), value_set=self.names)
        item_codes = _fill_nulls(codes, -1)
        return Ragged(item_codes if names is None else item_codes[ragged.values], ragged.offsets)

    def _typed_column(
        self, of: IntArray, items: IntArray, gains: Any, clicks: IntArray, size: int
    ) -> Any:
        """The combined gain of each item and type, in the order of items and types."""
        arrow = _arrow()
        types, names = _sorted_codes(self.reports["type"])
        entry = arrow.struct(
            {"item": self.names.type, "gain": arrow.float64(), "type": arrow.large_string()}
        )
        if not len(names):
            return _lists(np.zeros(size + 1, np.int64), arrow.array([], entry))
        typed = types[clicks] >= 0
        of, items, gains, kinds = of[typed], items[typed], gains[typed], types[clicks][typed]
        groups = tuple_codes(of, items, kinds)
        first, combined, _ = reduce_gains(groups, gains, self._rule.combine)
        offsets = np.concatenate(([0], np.cumsum(np.bincount(of[first], minlength=size))))
        columns = [
            self.names.take(arrow.array(items[first])),
            arrow.array(combined),
            names.take(arrow.array(kinds[first])),
        ]
        return _lists(offsets, arrow.StructArray.from_arrays(columns, fields=list(entry)))


def _reports(streams: Sequence[Stream]) -> Any:
    """Interactions of streams as one table, with the outcome of ignored and invalid rows."""
    tables = [_report(stream, number) for number, stream in enumerate(streams)]
    return concatenate(*tables) if tables else _nothing_reported()


def _report(stream: Stream, number: int) -> Any:
    if stream.table is None:
        return _nothing_reported()
    arrow, rule, where = _arrow(), stream.rule, "interactions"
    table = with_user_column(as_table(stream.table))
    key = _ids(_required_column(table, rule.key_column, where), rule.key_column)
    item = _ids(_required_column(table, "item", where), "item")
    times, invalid = _times(_required_column(table, "times", where))
    named = set(table.column_names)
    nothing = arrow.nulls(table.num_rows, arrow.large_string())
    kind = _ids(column_of(table, "type"), "type") if "type" in named else nothing
    event = nothing
    if "event_id" in named:
        # Numbers and text with the same digits are one id.
        event = _ids(column_of(table, "event_id"), "event_id").cast(arrow.large_string())
    within = arrow.repeat(arrow.scalar(f"{number}", arrow.large_string()), table.num_rows)
    if "stream" in named:
        of_row = column_of(table, "stream").to_pylist()
        within = arrow.array([f"{number} {name}" for name in of_row], arrow.large_string())
    words = kind.cast(arrow.large_string()).dictionary_encode()
    types = [*words.dictionary.to_pylist(), None]
    of_type = _fill_nulls(words.indices, len(types) - 1)
    gains = np.array([rule.types.get(name or "", 1.0) for name in types])[of_type]
    if "gain" in named:
        explicit_gains = _floats(column_of(table, "gain"))
        gains = np.where(null_rows(table["gain"]), gains, explicit_gains)
        invalid |= ~(np.abs(gains) <= LARGEST_GAIN)
    counts = [counts_type(rule, name) for name in types]
    invalid |= null_rows(key) | null_rows(item)
    if rule.types:
        invalid |= of_type == len(types) - 1
    outcomes = np.where(np.array(counts)[of_type], _COUNTED, _IGNORED)
    outcomes[invalid] = _INVALID
    return arrow.table(
        {
            "key": key,
            "item": item,
            "times": times,
            "type": words.cast(arrow.large_string()),
            "gain": gains,
            "event_id": event,
            "stream": within,
            "outcome": outcomes.astype(np.int8),
        }
    )


def _nothing_reported() -> Any:
    arrow = _arrow()
    kinds = {"key": arrow.null(), "item": arrow.null(), "times": arrow.int64()}
    kinds |= {"type": arrow.large_string(), "gain": arrow.float64()}
    kinds |= {
        "event_id": arrow.large_string(),
        "stream": arrow.large_string(),
        "outcome": arrow.int8(),
    }
    return arrow.schema(kinds).empty_table()


def _no_impressions(rule: Attribution) -> Any:
    arrow = _arrow()
    kinds = {"recommendations": arrow.list_(arrow.null()), "times": arrow.int64()}
    kinds |= dict.fromkeys([rule.key_column, *rule.per], arrow.null())
    return arrow.schema(kinds).empty_table()


_NEW, _ACCEPTED, _REPORTED = range(3)
"""Progress of a row in `closed`: it arrived, it was accepted, its outcome was returned."""

_PROGRESS: Final = "~progress"


def _with_progress(table: Any) -> Any:
    return table.append_column(_PROGRESS, _arrow().array(np.full(table.num_rows, _NEW, np.int8)))


def _progress(table: Any) -> Any:
    if _PROGRESS not in table.column_names:
        return np.full(table.num_rows, _NEW, np.int8)
    return _numbers(table[_PROGRESS])


def _rest(table: Any, stay: BoolArray, progress: Any) -> Any:
    """The rows that stay, with their progress; None without any."""
    rows = np.flatnonzero(stay)
    if not rows.size:
        return None
    part = table.drop_columns([_PROGRESS]).take(rows)
    return part.append_column(_PROGRESS, _arrow().array(progress[rows]))


def _required_column(table: Any, name: str, where: str) -> Any:
    """A required column of impressions or interactions."""
    return column_of(table, name, where, "user" if name == "users" else name)


def _ids(column: Any, name: str) -> Any:
    """A column of ids as an array of int64 or text; empty text and padding become null."""
    arrow, types = _arrow(), _arrow().types
    array = column.combine_chunks()
    if types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    if array.null_count == len(array):
        # A column of nulls is compatible with any type.
        return arrow.nulls(len(array))
    compute = import_extra("pyarrow.compute", "a join", "tables")
    if types.is_integer(array.type):
        try:
            array = array.cast(arrow.int64())
        except arrow.ArrowInvalid as error:
            raise InvalidEventError("invalid_id", f"{name}: {error}") from error
    elif types.is_string(array.type) or types.is_large_string(array.type):
        array = array.cast(arrow.large_string())
    else:
        detail = f"{name}: ids are integers or text, found {array.type}"
        raise InvalidEventError("invalid_id", detail)
    kind = int if types.is_integer(array.type) else str
    absent = [entry for entry in (RESERVED if name == "item" else {""}) if isinstance(entry, kind)]
    if not absent:
        return array
    lacking = compute.is_in(array, value_set=arrow.array(absent, array.type))
    if not compute.any(lacking).as_py():
        return array
    return compute.if_else(lacking, arrow.scalar(None, array.type), array)


def _unlike(what: str, left: Any, right: Any) -> InvalidEventError:
    kinds = ["integers" if _arrow().types.is_integer(kind) else "text" for kind in (left, right)]
    detail = f"{what} are {kinds[0]} in impressions and {kinds[1]} in interactions"
    return InvalidEventError("invalid_id", f"{detail}; write them alike")


def _shared_codes(name: str, *columns: Any) -> list[IntArray]:
    """The ids of columns as codes, equal for equal ids; -1 for null."""
    arrow = _arrow()
    arrays = [
        column.combine_chunks() if hasattr(column, "combine_chunks") else column
        for column in columns
    ]
    kinds = list(dict.fromkeys(x.type for x in arrays if not arrow.types.is_null(x.type)))
    if len(kinds) > 1:
        raise _unlike(name, *kinds)
    kind = kinds[0] if kinds else arrow.int64()
    together = arrow.concat_arrays([array.cast(kind) for array in arrays]).dictionary_encode()
    codes = _fill_nulls(together.indices, -1)
    edges = np.cumsum([len(array) for array in arrays])[:-1]
    return np.split(codes, edges)


def _sorted_codes(column: Any) -> tuple[IntArray, Any]:
    """A column as codes in the order of its distinct values, and these; -1 for null."""
    compute = import_extra("pyarrow.compute", "a join", "tables")
    words = column.combine_chunks().dictionary_encode()
    order = _numbers(compute.sort_indices(words.dictionary)).astype(np.int64)
    rank = np.empty(order.size + 1, np.int64)
    rank[order], rank[-1] = np.arange(order.size), -1
    return rank[_fill_nulls(words.indices, -1)], words.dictionary.take(_arrow().array(order))


def _equal_values(column: Any, rows: IntArray, others: IntArray) -> BoolArray:
    """True for the pairs of rows with equal values in a column; False for lists and structures.

    Null equals null.
    """
    array = _storage_array(column)
    if not _is_single(array.type):
        return np.zeros(rows.size, np.bool_)
    part = array.take(np.concatenate((rows, others)))
    if _arrow().types.is_floating(part.type):
        # 0.0 and -0.0 are not the same content.
        part = part.cast(_arrow().string())
    first, second = np.split(_column_codes(part), [rows.size])
    equal: BoolArray = first == second
    return equal


def _column_codes(column: Any) -> IntArray:
    """A column of any single values as codes; null is a value, too."""
    array = _storage_array(column)
    if not _is_single(array.type):
        raise InvalidEventError("invalid_label", f"{array.type} is not a type of single values")
    if not _arrow().types.is_dictionary(array.type):
        array = array.dictionary_encode()
    return _fill_nulls(array.indices, len(array.dictionary))


def _storage_array(column: Any) -> Any:
    """A column as one array of a type that Arrow computes with; UUIDs as bytes."""
    array = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    return array.storage if isinstance(array.type, _arrow().BaseExtensionType) else array


def _is_single(kind: Any) -> bool:
    return kind.num_fields == 0 and not _arrow().types.is_nested(kind)


def _times(column: Any) -> tuple[IntArray, BoolArray]:
    """Event times in microseconds, and True where a row has none; those are 0."""
    array = in_microseconds(column.combine_chunks())
    types = _arrow().types
    if types.is_null(array.type):
        array = array.cast(_arrow().int64())
    if not types.is_integer(array.type):
        detail = f"times: {array.type}; give timestamps, or microseconds since the epoch"
        raise InvalidEventError("wrong_type", detail)
    times = _fill_nulls(array, 0)
    absent = null_rows(array)
    absent[outside_range(times)] = True
    times[absent] = 0
    return times, absent


def _floats(column: Any) -> Any:
    arrow = _arrow()
    try:
        numbers = column.combine_chunks().cast(arrow.float64())
    except (arrow.ArrowInvalid, arrow.ArrowNotImplementedError) as error:
        raise InvalidEventError("invalid_gain", f"gain: {' '.join(str(error).split())}") from error
    return numbers.fill_null(0.0).to_numpy()


def _gain_column(offsets: IntArray, gains: Any) -> Any:
    """The gains of lists; null for lists where all are 1."""
    arrow = _arrow()
    graded = np.zeros(offsets.size - 1, np.bool_)
    list_indices = np.repeat(np.arange(graded.size), np.diff(offsets))
    graded[list_indices[gains != 1.0]] = True
    entries = gains[graded[list_indices]]
    ends = np.concatenate(([0], np.cumsum(np.diff(offsets) * graded)))
    return arrow.LargeListArray.from_arrays(
        arrow.array(ends), arrow.array(entries), mask=arrow.array(~graded)
    )


def _lists(offsets: IntArray, values: Any) -> Any:
    return _arrow().LargeListArray.from_arrays(_arrow().array(offsets), values)


def _fill_nulls(array: Any, absent: int) -> IntArray:
    """A copy of an Arrow array of integers, with nulls replaced by a number."""
    filled: IntArray = array.fill_null(absent).to_numpy(zero_copy_only=False).astype(np.int64)
    return filled


def _numbers(column: Any) -> Any:
    """A column of numbers without nulls."""
    array = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    return array.to_numpy(zero_copy_only=False)


def _counts_of(outcomes: Any, outside: Any = (), unlisted: Any = ()) -> RowCounts:
    """Rows by outcome; open ones are not counted yet."""
    counts = np.bincount(outcomes, minlength=len(ROW_OUTCOMES))[:_OPEN].tolist()
    named = dict(zip(ROW_OUTCOMES, counts, strict=False))
    return RowCounts(
        records=sum(counts),
        **named,
        outside=int(np.count_nonzero(outside)),
        unlisted=int(np.count_nonzero(unlisted)),
    )


def _arrow() -> Any:
    return import_extra("pyarrow", "joining tables", "tables")
