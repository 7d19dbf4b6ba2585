"""Tables with one event per row: their columns as batches of events.

Functions raise InputError for a column that is missing or has no lists, and for unlike ids.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC
from typing import Any, Final, Literal, NamedTuple

import msgspec
import numpy as np

from streameval.accumulator.intake import checked_batch
from streameval.decoding.columns import Decoded
from streameval.decoding.fields import EventFields, TimeUnit
from streameval.decoding.invalid import Refusal
from streameval.decoding.times import check_time, microsecond_column
from streameval.decoding.values import label_texts
from streameval.evaluation.cells import Kind, ListColumn, Separator, is_list_type, require_lists
from streameval.evaluation.files import (
    MIND,
    RowBlock,
    TableColumn,
    TablePart,
    arrow,
    blocks_of,
    finite_or_none,
    listing,
    plain_array,
    require,
)
from streameval.evaluation.options import InputError, Options, Setting, column
from streameval.events import Batch
from streameval.events.arrow import in_microseconds
from streameval.events.batch import IntArray
from streameval.events.columns import Columns
from streameval.events.errors import InvalidEventError, SuspiciousEventsWarning
from streameval.events.ids import IdKind
from streameval.events.ragged import Array, IdColumn, Ragged
from streameval.events.times import YEARS, outside_range
from streameval.statistics.matching import Search

_IDS: Final = ("recommendations", "interactions")
_NUMBERS: Final = ("gains", "positions", "scores")
USERS: Final = "users"
"""Another usual name of the column of users."""

GAINS: Final = "gains"
"""The only list column that is not a field of JSON records."""


class Needs(NamedTuple):
    """What is read of an event besides its lists.

    Attributes:
        users: whether to read who saw the list.
        times: whether to read event times.
        event_ids: whether to read the identity of the event.
        in_order: whether the rows of a file are counted one after the other.
        scores: whether to read the scores of a pair.
        repeats: whether it matters that rows of a truth repeat an item.
    """

    users: bool = False
    times: bool = False
    event_ids: bool = False
    in_order: bool = False
    scores: bool = False
    repeats: bool = False


class EventRows:
    """Reads tables with one event per row.

    Args:
        fields: names of the columns; those of positions and scores are optional.
        labels: columns to split by.
        needs: what else is read.
        options: how files are read.
    """

    def __init__(
        self, fields: EventFields, labels: Sequence[str], needs: Needs, options: Options
    ) -> None:
        self._labels, self._needs, self._options = labels, needs, options
        self.in_order = needs.in_order
        self._absent = {name for name, found in options.columns.items() if found is None}
        if options.form == "mind":
            fields = msgspec.structs.replace(fields, user=MIND[1])
        self._fields = fields
        self.ids: IdKind = "text"

    def find_kind(self, parts: Iterable[TablePart]) -> None:
        """Find the kind of the ids of all parts: integers if all are, or can become integers.

        Raises:
            InputError: some have integers and others text.
        """
        kinds: dict[bool, str] = {}
        by_path = {part.path: part for part in parts}
        for part in by_path.values():
            for name in _IDS:
                kind = self._kind(part, name)
                if not arrow().types.is_null(kind):
                    kinds.setdefault(arrow().types.is_integer(kind), f"{name} of {part.path}")
        if len(kinds) > 1 and self._fields.ids != "integer":
            problem = f"ids are integers in {kinds[True]} and text in {kinds[False]}"
            raise InputError(
                f'{next(iter(by_path))}: {problem}; write them alike, or set ids = "integer" under '
                "[event] in {config=FILE}."
            )
        all_integers = False not in kinds and bool(kinds)
        self.ids = "integer" if all_integers or self._fields.ids == "integer" else "text"

    def read(self, part: TablePart, search: Search) -> Iterator[tuple[int, Decoded]]:
        """The index of the first row of each block, and its events."""
        lists = {name: self._list_column(self._name(name), "ids") for name in _IDS}
        lists |= {name: self._list_column(self._name(name), "numbers") for name in _NUMBERS}
        per_item = (self._fields.per_item or {}).items()
        values = {name: self._list_column(field, "values") for name, field in per_item}
        for block in blocks_of(part, self._select, self._options):
            if self._options.form == "mind":
                block = _of_mind(block)  # noqa: PLW2901  the same rows in the usual form
            if block.rows.num_rows:
                yield block.first, self._decoded(block, lists, values, search)

    def _decoded(
        self,
        block: RowBlock,
        lists: Mapping[str, ListColumn],
        values: Mapping[str, ListColumn],
        search: Search,
    ) -> Decoded:
        columns = self._columns(block, lists)
        if per_item := self._fields.per_item:
            arrays = [values[name].read(block.column(field)) for name, field in per_item.items()]
            columns["per_item"] = arrow().StructArray.from_arrays(arrays, names=list(values))
        user, fields = self._user(block.names), self._fields
        if user is not None:
            columns["users"] = user_column(block.column(user))
        if self._needs.times and fields.time is not None and fields.time_unit is not None:
            times = time_column(block.column(fields.time), fields.time_unit)
            columns["times"] = arrow().array(times)
        batch = self._checked(block, columns, search)
        if self._needs.event_ids and fields.event_id is not None:
            ids = id_column(block.column(fields.event_id)).to_pylist()
            batch = msgspec.structs.replace(batch, event_ids=list(map(str, ids)))
        if batch.times is not None:
            batch = msgspec.structs.replace(batch, times=np.array(batch.times, np.int64))
        dimensions = None
        if self._labels:
            named_labels = [self._label(block, name) for name in self._labels]
            dimensions = list(zip(*named_labels, strict=True))
        return Decoded(batch=batch, dimensions=dimensions, places=np.arange(len(batch)))

    def _columns(self, block: RowBlock, lists: Mapping[str, ListColumn]) -> dict[str, Any]:
        """The lists of ids and of numbers, as arguments of `Columns`."""
        present = {name: self._name(name) for name in lists if self._has(block.names, name)}
        bars = [lists[name].note_bars(block.column(present[name])) for name in _IDS]
        for name in _IDS if any(bars) else ():
            lists[name].has_bars = True
        arrays = {name: lists[name].read(block.column(field)) for name, field in present.items()}
        if self._fields.ids == "integer":
            arrays |= {name: _integers(block.path, arrays[name]) for name in _IDS}
        _refuse_floats(block.path, [arrays[name] for name in _IDS])
        return arrays

    def _checked(self, block: RowBlock, columns: Mapping[str, Any], search: Search) -> Batch:
        """The events as a batch; an error names the first row that is none."""
        try:
            return _batch(self.ids, _coded(columns), search)
        except InvalidEventError as error:
            checked, failing = 0, block.rows.num_rows
            while failing - checked > 1:
                middle = (checked + failing) // 2
                sound = self._refusal(columns, checked, middle, search) is None
                checked, failing = (middle, failing) if sound else (checked, middle)
            # The error of the row alone names no number of a row in some part of the file.
            alone = self._refusal(columns, checked, failing, search) or error
            detail = f"{block.place(checked)}: {alone.detail}; correct the file."
            raise InputError(detail) from error

    def _refusal(
        self, columns: Mapping[str, Any], start: int, stop: int, search: Search
    ) -> InvalidEventError | None:
        part = {name: values[start:stop] for name, values in columns.items()}
        try:
            _batch(self.ids, part, search)
        except InvalidEventError as error:
            return error
        return None

    def _select(self, path: str, names: Sequence[str]) -> set[str]:
        """The columns to read; refuses a file that lacks one."""
        for name in self._options.separator:
            if name and name not in names:
                raise InputError(
                    f"{path}: no column {name!r}; {listing(names)}; "
                    "{separator} names one of them, {separator=|} is for all.",
                    separator=Setting("separator", "...", name),
                )
        if self._options.form == "mind":
            return {*MIND}
        lists = {self._name(name): name for name in (*_IDS, *_NUMBERS) if self._has(names, name)}
        labels = {self._fields.labels.get(name, name): name for name in self._labels}
        values = {
            field: f"per_item.{name}" for name, field in (self._fields.per_item or {}).items()
        }
        needed = lists | values | labels
        user, fields = self._user(names), self._fields
        if user is not None:
            needed[user] = "user"
        if self._needs.times and fields.time is not None:
            needed[fields.time] = "time"
        if self._needs.event_ids and fields.event_id is not None:
            needed[fields.event_id] = "event_id"
        for name, role in needed.items():
            require(path, name, names, _remedy(role), role=column(role))
        return {*needed}

    def _has(self, names: Sequence[str], name: str) -> bool:
        """Whether a list column is read: an optional one only where it is named or there is one."""
        field = self._name(name)
        return name not in self._absent and (name in _IDS or field != name or field in names)

    def _name(self, name: str) -> str:
        given = self._options.columns.get(GAINS) if name == GAINS else getattr(self._fields, name)
        return given or name

    def _user(self, names: Sequence[str]) -> str | None:
        """The column of users, if they are read; without a name it may be `users`, or absent."""
        user = self._fields.user
        if self._needs.users and user == EventFields().user and user not in names:
            return USERS if USERS in names else None
        return user if self._needs.users else None

    def _list_column(self, name: str, kind: Kind) -> ListColumn:
        named = self._options.separator.get(name)
        text = named if named is not None else self._options.separator.get("")
        return ListColumn(kind, Separator(text, explicit=named is not None))

    def _label(self, block: RowBlock, name: str) -> list[str]:
        """The text of each value of a label; those of a dictionary are made once."""
        field = self._fields.labels.get(name, name)
        values = block.rows[field].combine_chunks()
        if values.type.num_fields == 0:
            values = _encoded(values)
            names = [*values.dictionary.to_pylist(), None]
        else:
            names = values.to_pylist()
        try:
            texts = label_texts(names)
        except Refusal as refusal:
            listed = enumerate(values.to_pylist())
            row = next((row for row, value in listed if _is_refused(value)), 0)
            raise InputError(
                f"{block.place(row)}: {refusal}; split by a column of short text or of integers."
            ) from refusal
        if values.type.num_fields:
            return list(texts)
        codes: list[int] = values.indices.fill_null(len(names) - 1).to_numpy().tolist()
        return [texts[code] for code in codes]

    def _kind(self, part: TablePart, name: str) -> Any:
        """Arrow's type of the ids in a column."""
        if part.kind is None:
            return arrow().large_string()
        field = self._name(name)
        require(part.path, field, part.kind.names, _remedy(name), role=column(name))
        kind = _plain(part.kind.field(field).type)
        require_lists(part.path, field, kind)
        if not is_list_type(kind):
            return arrow().large_string()
        types, entries = arrow().types, _plain(kind.value_type)
        known = (types.is_integer, types.is_string, types.is_large_string, types.is_string_view)
        if not any(is_kind(entries) for is_kind in (*known, types.is_null)):
            raise InputError(
                f"{part.path}: {name} are lists of {entries}; give ids as integers or as text."
            )
        return entries


def _batch(kind: IdKind, columns: Mapping[str, Any], search: Search) -> Batch:
    with warnings.catch_warnings():
        # Times that are too early are reported once for all files.
        warnings.simplefilter("ignore", SuspiciousEventsWarning)
        return checked_batch(kind, Columns(**columns), search)[1]


def _coded(columns: Mapping[str, Any]) -> dict[str, Any]:
    """The columns with both lists of text coded together, so that equal ids have equal codes.

    The codes of a parquet file are kept: each of its words is looked at once.
    """
    lists = [columns[name] for name in _IDS]
    if GAINS in columns or any(_is_unusual(column) for column in lists):
        return dict(columns)
    flat = [_encoded(column.flatten()) for column in lists]
    known = [plain_array(entries.dictionary) for entries in flat]
    words = arrow().concat_arrays(known).dictionary_encode()
    numbers = np.split(words.indices.to_numpy().astype(np.int64), [len(known[0])])
    codes = [
        of_column[entries.indices.to_numpy()]
        for of_column, entries in zip(numbers, flat, strict=True)
    ]
    used = np.zeros(len(words.dictionary), np.bool_)
    for of_column in codes:
        used[of_column] = True
    names = words.dictionary.filter(arrow().array(used)).to_pylist()
    renumbered = np.cumsum(used) - 1
    coded = {
        name: IdColumn(Ragged(renumbered[of_column], _offsets(column)), names)
        for name, of_column, column in zip(_IDS, codes, lists, strict=True)
    }
    return {**columns, **coded}


def _is_unusual(lists: Any) -> bool:
    """Whether lists are not of text, or have nulls, which are refused elsewhere."""
    types, kind = arrow().types, lists.type
    if not (types.is_list(kind) or types.is_large_list(kind)) or lists.null_count:
        return True
    entries = _plain(kind.value_type)
    is_text = types.is_string(entries) or types.is_large_string(entries)
    return not is_text or bool(lists.flatten().null_count)


def _offsets(lists: Any) -> IntArray:
    offsets: IntArray = lists.offsets.to_numpy().astype(np.int64)
    offsets -= offsets[0]
    return offsets


def _encoded(values: Any) -> Any:
    is_coded = arrow().types.is_dictionary(values.type)
    return values if is_coded else plain_array(values).dictionary_encode()


def _is_refused(label: object) -> bool:
    try:
        label_texts([label])
    except Refusal:
        return True
    return False


def _of_mind(block: RowBlock) -> RowBlock:
    """Impressions like "N5-0 N6-1" as lists: those shown, and those clicked."""
    compute = arrow("compute")
    shown = compute.utf8_split_whitespace(block.rows["impressions"].combine_chunks())
    marked = shown.flatten()
    clicked = compute.ends_with(marked, "-1")
    if not compute.all(compute.match_substring_regex(marked, "-[01]$"), min_count=0).as_py():
        raise InputError(
            f"{block.path}: impressions like {marked[0].as_py()!r} name no clicks, as in MIND's "
            "test part; give a part with N5-0 N6-1."
        )
    items = compute.replace_substring_regex(marked, "-[01]$", "")
    offsets = _offsets(shown)
    hits = np.concatenate(([0], np.cumsum(clicked.to_numpy(zero_copy_only=False))))
    make = arrow().LargeListArray.from_arrays
    rows = block.rows.drop_columns(["impressions"])
    rows = rows.append_column("recommendations", make(arrow().array(offsets), items))
    acts = make(arrow().array(hits[offsets]), items.filter(clicked))
    rows = rows.append_column("interactions", acts)
    return block._replace(rows=rows, names=[*rows.column_names])


def _refuse_floats(path: str, columns: Sequence[Any]) -> None:
    """Refuse text ids like 7.0 in one column and 7 in the other, which never match."""
    forms = dict(zip(_IDS, map(_form, columns), strict=True))
    if set(forms.values()) == {"integers", "floats"}:
        floats = next(name for name in _IDS if forms[name] == "floats")
        first = columns[_IDS.index(floats)].flatten()[0].as_py()
        raise InputError(
            f"{path}: the ids of {floats} are floats, like {first!r:.40}, but the others are "
            "integers; write integers in both; missing values cause floats."
        )


def _form(lists: Any) -> Literal["integers", "floats"] | None:
    ids, matches = lists.flatten(), arrow("compute").match_substring_regex
    if arrow().types.is_dictionary(ids.type):
        ids = plain_array(ids.dictionary)
    if not len(ids) or not arrow().types.is_large_string(ids.type):
        return None
    forms: Sequence[tuple[Literal["integers", "floats"], str]]
    forms = (("integers", r"^-?\d+$"), ("floats", r"^-?\d+\.0$"))
    for form, pattern in forms:
        if all(arrow("compute").all(matches(part, pattern)).as_py() for part in (ids[:1], ids)):
            return form
    return None


def _integers(path: str, lists: Any) -> Any:
    try:
        return lists.cast(arrow().large_list(arrow().int64()))
    except arrow().ArrowInvalid as error:
        raise InputError(
            f'{path}: {" ".join(str(error).split())}; leave out ids = "integer", or give integers.'
        ) from error


def _plain(kind: Any) -> Any:
    """The value type of a dictionary type; any other type unchanged."""
    return kind.value_type if arrow().types.is_dictionary(kind) else kind


def _remedy(role: str) -> str:
    name = f"name the one that holds the {role} with {{role}}"
    if role not in _IDS:
        return name
    return (
        f"{name}, or give rows of users and items to evaluate as {{recommendations}} and {{truth}}"
    )


def id_column(column: TableColumn) -> Any:
    """A column of ids as an Arrow array of integers or strings."""
    array = user_column(column)
    if array.null_count:
        row = array.is_null().to_pylist().index(True)
        raise column.error(row, "no id", "every row needs one; correct the file")
    return array


def user_column(column: TableColumn) -> Any:
    """A column of optional ids as an Arrow array; null and empty text become null."""
    types, array, compute = arrow().types, column.values, arrow("compute")
    if not len(array):
        # pandas gives a column without rows any type.
        return arrow().array([], arrow().large_string())
    if not (types.is_integer(array.type) or types.is_large_string(array.type)):
        raise InputError(
            f"{column.path}: column {column.name!r} holds {array.type}; write ids as integers or "
            "as text."
        )
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
        numbers = arrow().array([finite_or_none(value) for value in array.to_pylist()], wanted)
    valid = compute.fill_null(compute.is_finite(numbers), fill_value=False)
    if not compute.all(valid, min_count=0).as_py():
        row = valid.to_pylist().index(False)
        problem = f"found {array[row].as_py()!r:.40}, which is not a finite number"
        raise column.error(row, problem, "correct it, or name another column")
    values: Array = numbers.to_numpy(zero_copy_only=False)
    return values


def time_column(column: TableColumn, unit: TimeUnit) -> IntArray:
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
            problem = f"{column.path}: column {column.name!r}: {error.detail}"
            raise InputError(f"{problem}; correct the file.") from error
        if (outside := outside_range(times)).size:
            raise column.error(int(outside[0]), f"not in {YEARS}", "correct the file")
        return times
    is_text = types.is_large_string(array.type)
    read = []
    for row, value in enumerate(array.to_pylist()):
        number = finite_or_none(value) if is_text and unit != "iso8601" else None
        # Text of digits is parsed as an integer, because a float of microseconds is not exact.
        exact = int(value) if number is not None and str(value).strip().isdecimal() else number
        try:
            time = value if exact is None else exact
            # Text without an offset is UTC, as timestamps of Arrow are.
            read.append(check_time(time, unit, column.name, naive=UTC))
        except Refusal as refusal:
            raise column.error(
                row,
                str(refusal),
                'write text like "2026-01-31T08:00:00Z", or say how time is written with '
                "{time_unit} (s, ms, us or iso8601)",
            ) from None
    return microsecond_column(read, unit)


def of_one_kind(arrays: Sequence[Any], *, integers: bool = False) -> list[Any]:
    """Arrays of ids of one type: integers if all are integers, otherwise strings.

    `integers`: whether strings of digits become integers, too.
    """
    kinds = [arrow().int64() if integers else arrow().large_string()]
    if all(arrow().types.is_integer(array.type) for array in arrays):
        kinds = [arrow().int64(), arrow().uint64(), *kinds]
    for kind in kinds[:-1]:
        with suppress(arrow().ArrowInvalid):  # some integers do not fit
            return [array.cast(kind) for array in arrays]
    try:
        return [array.cast(kinds[-1]) for array in arrays]
    except arrow().ArrowInvalid as error:
        problem = " ".join(str(error).split())
        raise InputError(f'ids: {problem}; leave out ids = "integer", or give integers.') from error


def span_starts(times: IntArray, every: int) -> IntArray:
    """The start of the span of each time; spans are aligned to the epoch."""
    return np.floor_divide(times, every) * every
