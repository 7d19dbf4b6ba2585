"""Tables with one event per row: their columns as batches of events.

Functions raise InputError for a column that is missing or has no lists, and for unlike ids.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from streameval.accumulator.intake import checked_batch
from streameval.decoding.columns import Decoded
from streameval.decoding.fields import EventFields, TimeUnit
from streameval.decoding.invalid import Refusal
from streameval.decoding.times import check_time, microsecond_column
from streameval.decoding.values import label_texts
from streameval.evaluation.arguments import InputError, Named, Options, Setting, column
from streameval.evaluation.files import (
    MIND,
    RowBlock,
    TableColumn,
    TablePart,
    arrow,
    blocks_of,
    decode_array,
    finite_or_none,
    listing,
    require,
)
from streameval.evaluation.list_columns import ListColumn, ListKind, is_list_type, require_lists
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

TYPED: Final = "typed"
"""The column of interactions with their types."""

_NUMBERS: Final = ("gains", "positions", "scores")


class Needs(NamedTuple):
    """The fields of an event that are read besides its lists.

    Attributes:
        in_order: whether the rows of a file are counted one after the other.
        scores: those of a pair.
        repeats: whether it matters that rows of a truth repeat an item.
        single: whether scores are compared as 32-bit floats, as trec_eval does.
        others: whether metrics of other systems are read from the same order.
        types: whether types of interactions are read where there are any; and the metric that
            cannot do without.
    """

    users: bool = False
    times: bool = False
    event_ids: bool = False
    in_order: bool = False
    scores: bool = False
    repeats: bool = False
    single: bool = False
    others: bool = False
    types: bool = False
    typed_metric: str | None = None


def _require_role(path: str, name: str, names: Sequence[str], role: str) -> None:
    remedy = "name the one that holds the {role} with {column}"
    if role in _IDS:
        remedy += ", or give rows of users and items to evaluate as {recommendations} and {truth}"
    require(path, name, names, remedy, role=role, column=column(role))


class EventRows:
    """Reads tables with one event per row; `fields` and `labels` name its columns."""

    def __init__(
        self, fields: EventFields, labels: Sequence[str], needs: Needs, options: Options
    ) -> None:
        self._labels, self._needs, self._options = labels, needs, options
        self._is_mind = options.form == "mind"
        self._fields = fields
        self._names = {name: getattr(fields, name) or name for name in (*_IDS, *_NUMBERS)}
        self.in_order = needs.in_order
        self.ids: IdKind = "text"
        self.used: set[Named] = set()

    def other_columns(self, more: Sequence[str]) -> list[str]:
        """The columns that are read besides lists, users and times, where there are any."""
        fields = self._fields
        named = [self._names[name] for name in ("positions", "scores")]
        named += (fields.per_item or {}).values()
        named += [fields.labels.get(name, name) for name in self._labels]
        return [*dict.fromkeys((*named, *more))]

    def find_kind(self, parts: Iterable[TablePart]) -> None:
        """Find the kind of the ids of all parts: integers if all are, or can become integers."""
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
                '{problem}; write them alike, or set ids = "integer" under [event] in '
                "{config=FILE}.",
                problem=f"{next(iter(by_path))}: {problem}",
            )
        all_integers = False not in kinds and bool(kinds)
        self.ids = "integer" if all_integers or self._fields.ids == "integer" else "text"

    def _kind(self, part: TablePart, name: str) -> Any:
        if part.kind is None:
            return arrow().large_string()
        field = self._names[name]
        _require_role(part.path, field, part.kind.names, name)
        kind = _value_type(part.kind.field(field).type)
        require_lists(part.path, field, kind)
        if not is_list_type(kind):
            return arrow().large_string()
        types, entries = arrow().types, _value_type(kind.value_type)
        supported = (types.is_integer, types.is_string, types.is_large_string, types.is_string_view)
        if not any(is_kind(entries) for is_kind in (*supported, types.is_null)):
            raise InputError(
                "{problem}; give ids as integers or as text.",
                problem=f"{part.path}: {name} are lists of {entries}",
            )
        return entries

    def read(self, part: TablePart, search: Search) -> Iterator[tuple[int, Decoded]]:
        """The index of the first row of each block, and its events."""
        lists = {name: self._list_column(self._names[name], "ids") for name in _IDS}
        lists |= {name: self._list_column(self._names[name], "numbers") for name in _NUMBERS}
        per_item = (self._fields.per_item or {}).items()
        values = {name: self._list_column(field, "values") for name, field in per_item}
        for block in blocks_of(part, self._select, self._options):
            self.used |= {(name, None) for name in block.used}
            if self._is_mind:
                has_times = self._needs.times and self._fields.time == MIND[2]
                block = _of_mind(block, has_times=has_times)  # noqa: PLW2901  the usual form
            if block.rows.num_rows:
                yield block.first, self._decode_block(block, lists, values, search)

    def _list_column(self, name: str, kind: ListKind) -> ListColumn:
        options = self._options
        return ListColumn(kind, options.separator_of(name), explicit=name in options.separator)

    def _select(self, path: str, names: Sequence[str]) -> dict[str, bool]:
        """The columns to read; refuses a file that lacks one."""
        for name in self._options.separator:
            if name and name not in names:
                raise InputError(
                    "{problem}; {separator} names one of them, {separator=|} is for all.",
                    problem=f"{path}: no column {name!r}; {listing(names)}",
                    separator=Setting("separator", "...", name),
                )
        if self._is_mind:
            return dict.fromkeys(MIND, False)
        fields, needs = self._fields, self._needs
        roles = {self._names[name]: name for name in self._names if self._has(names, name)}
        roles |= {field: f"per_item.{name}" for name, field in (fields.per_item or {}).items()}
        roles |= {fields.labels.get(name, name): name for name in self._labels}
        if (user := self._user(names)) is not None:
            roles[user] = "user"
        if needs.times and fields.time is not None:
            roles[fields.time] = "time"
        if needs.event_ids and fields.event_id is not None:
            roles[fields.event_id] = "event_id"
        if needs.types and TYPED in names:
            roles[TYPED] = TYPED
        elif needs.typed_metric is not None:
            raise InputError(
                "{problem}; give one with structs of item, gain and type, as joins have, or JSON "
                "lines.",
                problem=f"{path}: no column {TYPED!r}, which {needs.typed_metric} needs",
            )
        for name, role in roles.items():
            _require_role(path, name, names, role)
        columns = self._options.columns
        absent = (name for name in self._names if columns.get(name, "") is None)
        self.used |= {("columns", role) for role in (*roles.values(), *absent) if role in columns}
        return dict.fromkeys(roles, False)

    def _has(self, names: Sequence[str], name: str) -> bool:
        """True if a list column is read: an optional one only where it is named or there is one."""
        if name in self._options.columns and self._options.columns[name] is None:
            return False
        return name in _IDS or self._names[name] != name or name in names

    def _user(self, names: Sequence[str]) -> str | None:
        """The column of users, if they are read; without a name it may be `users`, or absent."""
        user = self._fields.user
        if self._options.columns.get("user", "") is None:
            self.used.add(("columns", "user"))
            return None
        if self._needs.users and user == EventFields().user and user not in names:
            return "users" if "users" in names else None
        return user if self._needs.users else None

    def _decode_block(
        self,
        block: RowBlock,
        lists: Mapping[str, ListColumn],
        values: Mapping[str, ListColumn],
        search: Search,
    ) -> Decoded:
        fields, needs = self._fields, self._needs
        present = {name: self._names[name] for name in lists if self._has(block.names, name)}
        bars = [lists[name].note_bars(block.column(present[name])) for name in _IDS]
        for name in _IDS if any(bars) else ():
            lists[name].has_bars = True
        columns = {name: lists[name].read(block.column(field)) for name, field in present.items()}
        if fields.ids == "integer":
            for name in _IDS:
                try:
                    columns[name] = columns[name].cast(arrow().large_list(arrow().int64()))
                except arrow().ArrowInvalid as error:
                    problem = f"{block.path}: {' '.join(str(error).split())}"
                    raise _no_integers(problem) from error
        self.used |= {
            ("separator", field if field in self._options.separator else "")
            for name, field in present.items()
            if lists[name].has_separator
        }
        _refuse_floats(block.path, columns)
        if fields.per_item:
            lists_of = [values[name].read(block.column(at)) for name, at in fields.per_item.items()]
            columns["per_item"] = [
                dict(zip(values, row, strict=True)) for row in zip(*lists_of, strict=True)
            ]
        if needs.types and TYPED in block.names:
            columns[TYPED] = block.rows[TYPED]
        if columns.keys() & {"gains", TYPED}:
            self.used.add(("combine", None))
        if (user := self._user(block.names)) is not None:
            columns["users"] = user_column(block.column(user))
        if needs.times and fields.time is not None and fields.time_unit is not None:
            moments = block.column(fields.time)
            self.used |= uses_of_time(moments)
            columns["times"] = arrow().array(time_column(moments, fields.time_unit))
        batch = self._check_block(block, columns, search)
        if needs.event_ids and fields.event_id is not None:
            ids = id_column(block.column(fields.event_id)).to_pylist()
            batch = msgspec.structs.replace(batch, event_ids=list(map(str, ids)))
        if batch.times is not None:
            batch = msgspec.structs.replace(batch, times=np.array(batch.times, np.int64))
        dimensions = None
        if self._labels:
            raw = [block.rows[fields.labels.get(name, name)] for name in self._labels]
            coded = [label_codes(values.combine_chunks(), block.where) for values in raw]
            named = [[texts[code] for code in codes.tolist()] for texts, codes in coded]
            dimensions = list(zip(*named, strict=True))
        return Decoded(batch=batch, dimensions=dimensions, indices=np.arange(len(batch)))

    def _check_block(self, block: RowBlock, columns: Mapping[str, Any], search: Search) -> Batch:
        """The events as a batch; an error names the first invalid row."""

        def batch(columns: Mapping[str, Any]) -> Batch:
            with warnings.catch_warnings():
                # Times that are too early are reported once for all files.
                warnings.simplefilter("ignore", SuspiciousEventsWarning)
                event_columns = Columns(**columns, combine=self._fields.combine)
                return checked_batch(self.ids, event_columns, search)[1]

        def refusal(start: int, stop: int) -> InvalidEventError | None:
            try:
                batch({name: values[start:stop] for name, values in columns.items()})
            except InvalidEventError as error:
                return error
            return None

        try:
            return batch(_encode_lists(columns))
        except InvalidEventError as error:
            checked, failing = 0, block.rows.num_rows
            while failing - checked > 1:
                middle = (checked + failing) // 2
                is_valid = refusal(checked, middle) is None
                checked, failing = (middle, failing) if is_valid else (checked, middle)
            # The error of the row alone names no number of a row in some part of the file.
            alone = refusal(checked, failing) or error
            problem = f"{block.where(checked)}: {alone.detail}"
            raise InputError("{problem}; correct the file.", problem=problem) from error


def label_codes(values: Any, where: Callable[[int], str]) -> tuple[Sequence[str], IntArray]:
    """The texts of a label, and which of them each row has; `where` names a row, from 0."""
    if values.type.num_fields:
        names, codes = values.to_pylist(), np.arange(len(values))
    else:
        values = _dictionary_encode(values)
        names = [*values.dictionary.to_pylist(), None]
        codes = values.indices.fill_null(len(names) - 1).to_numpy()
    try:
        return label_texts(names), codes
    except Refusal as refusal:
        rows = enumerate(values.to_pylist())
        row = next((row for row, value in rows if _is_refused(value)), 0)
        raise InputError(
            "{problem}; split by a column of short text or of integers.",
            problem=f"{where(row)}: {refusal}",
        ) from refusal


def _is_refused(label: object) -> bool:
    try:
        label_texts([label])
    except Refusal:
        return True
    return False


def _encode_lists(columns: Mapping[str, Any]) -> dict[str, Any]:
    """The columns with both lists of text coded together, so that equal ids have equal codes.

    The codes of a parquet file are kept: each of its words is looked at once. Lists that are not of
    text stay as they are, as do nulls, which are refused elsewhere.
    """
    types, lists = arrow().types, [columns[name] for name in _IDS]
    for column_of_ids in lists:
        kind = column_of_ids.type
        is_list = types.is_list(kind) or types.is_large_list(kind)
        entries = _value_type(kind.value_type) if is_list else None
        is_text = is_list and (types.is_string(entries) or types.is_large_string(entries))
        if not is_text or column_of_ids.null_count or column_of_ids.flatten().null_count:
            return dict(columns)
    flat = [_dictionary_encode(column.flatten()) for column in lists]
    words = [decode_array(entries.dictionary) for entries in flat]
    distinct = arrow().concat_arrays(words).dictionary_encode()
    codes = np.split(distinct.indices.to_numpy().astype(np.int64), [len(words[0])])
    codes = [of[entries.indices.to_numpy()] for of, entries in zip(codes, flat, strict=True)]
    # A dictionary of a file may have words that no list has.
    used = np.zeros(len(distinct.dictionary), np.bool_)
    used[np.concatenate(codes)] = True
    names = distinct.dictionary.filter(arrow().array(used)).to_pylist()
    renumbered = np.cumsum(used) - 1
    return dict(columns) | {
        name: IdColumn(Ragged(renumbered[of], _offsets(column)), names)
        for name, of, column in zip(_IDS, codes, lists, strict=True)
    }


def _offsets(lists: Any) -> IntArray:
    offsets: IntArray = lists.offsets.to_numpy().astype(np.int64)
    offsets -= offsets[0]
    return offsets


def _dictionary_encode(values: Any) -> Any:
    is_coded = arrow().types.is_dictionary(values.type)
    return values if is_coded else decode_array(values).dictionary_encode()


def _value_type(kind: Any) -> Any:
    return kind.value_type if arrow().types.is_dictionary(kind) else kind


def _of_mind(block: RowBlock, *, has_times: bool) -> RowBlock:
    """Impressions like "N5-0 N6-1" as two lists, recommended and clicked; `has_times`: read."""
    compute = arrow("compute")
    impressions = block.column("impressions")
    lists = compute.utf8_split_whitespace(compute.utf8_trim_whitespace(impressions.values))
    marked = lists.flatten()
    clicked = compute.ends_with(marked, "-1")
    is_marked = compute.match_substring_regex(marked, ".-[01]$")
    if not compute.all(is_marked, min_count=0).as_py():
        at = is_marked.to_pylist().index(False)
        row, word = int(np.searchsorted(_offsets(lists), at, side="right")) - 1, marked[at].as_py()
        if not word:
            raise impressions.error(row, "no impressions", "remove rows in which nothing was shown")
        remedy = f"write {word}-1 or {word}-0; MIND's test part has no clicks to evaluate with"
        raise impressions.error(row, f"{word!r:.40} does not say if it was clicked", remedy)
    items = compute.replace_substring_regex(marked, "-[01]$", "")
    offsets = _offsets(lists)
    clicks = np.concatenate(([0], np.cumsum(clicked.to_numpy(zero_copy_only=False))))
    rows = block.rows.drop_columns(["impressions"])
    for name, edges, entries in (
        ("recommendations", offsets, items),
        ("interactions", clicks[offsets], items.filter(clicked)),
    ):
        column = arrow().LargeListArray.from_arrays(arrow().array(edges), entries)
        rows = rows.append_column(name, column)
    if has_times:
        at = rows.column_names.index(MIND[2])
        rows = rows.set_column(at, MIND[2], _mind_times(block.column(MIND[2])))
    return block._replace(rows=rows, names=[*rows.column_names])


def _mind_times(column: TableColumn) -> Any:
    """Times like 11/11/2019 9:05:58 AM as timestamps; the column itself if none is like it."""
    texts = column.values.cast(arrow().string())
    form = "%m/%d/%Y %I:%M:%S %p"
    times = arrow("compute").strptime(texts, format=form, unit="us", error_is_null=True)
    if times.null_count == len(texts):
        return column.values
    if times.null_count:
        row = times.is_null().to_pylist().index(True)
        problem = f"found {texts[row].as_py()!r:.40}, which is not such a time"
        raise column.error(row, problem, "write it like 11/11/2019 9:05:58 AM")
    return times


def _refuse_floats(path: str, columns: Mapping[str, Any]) -> None:
    """Refuse text ids like 7.0 in one column and 7 in the other, which never match."""
    matches, forms, firsts = arrow("compute").match_substring_regex, {}, {}
    for name in _IDS:
        ids = columns[name].flatten()
        if arrow().types.is_dictionary(ids.type):
            ids = decode_array(ids.dictionary)
        if not len(ids) or not arrow().types.is_large_string(ids.type):
            return
        for form, pattern in (("integers", r"^-?\d+$"), ("floats", r"^-?\d+\.0$")):
            # Most columns are ruled out by their first id.
            if all(arrow("compute").all(matches(of, pattern)).as_py() for of in (ids[:1], ids)):
                forms[form], firsts[form] = name, columns[name].flatten()[0].as_py()
    if len(forms) == 2:
        raise InputError(
            "{problem}, but the others are integers; write integers in both; missing values cause "
            "floats.",
            problem=f"{path}: the ids of {forms['floats']} are floats, like "
            f"{firsts['floats']!r:.40}",
        )


def _no_integers(problem: str) -> InputError:
    return InputError('{problem}; leave out ids = "integer", or give integers.', problem=problem)


def id_column(column: TableColumn) -> Any:
    """A column of ids as an Arrow array of integers or strings."""
    array = user_column(column)
    if array.null_count:
        row = array.is_null().to_pylist().index(True)
        if column.values[row].is_valid:
            raise column.error(row, "no id", "every row needs one; correct the file")
        raise column.error(row, "found a missing value (null, NaN or NA), not an id", _MISSING_ID)
    return array


_MISSING_ID: Final = (
    "drop such rows; if the id is a word like NA or null, read the file as text, in pandas with "
    "dtype=str, keep_default_na=False"
)


def user_column(column: TableColumn) -> Any:
    """A column of optional ids as an Arrow array; null and empty text become null."""
    types, array, compute = arrow().types, column.values, arrow("compute")
    if not len(array):
        # pandas gives a column without rows any type.
        return arrow().array([], arrow().large_string())
    if types.is_large_string(array.type):
        return compute.if_else(compute.equal(array, ""), arrow().scalar(None, array.type), array)
    if types.is_integer(array.type):
        return array
    missing = compute.is_null(array, nan_is_null=True) if types.is_floating(array.type) else None
    if missing is not None and compute.any(missing).as_py():
        problem = "found a missing value, because of which the other ids are floats"
        raise column.error(missing.to_pylist().index(True), problem, _MISSING_ID)
    raise InputError(
        "{problem}; write ids as integers or as text.",
        problem=f"{column.path}: column {column.name!r} holds {array.type}",
    )


def numbers_of(column: TableColumn) -> Array:
    """A column of finite numbers, from numbers or from text; shape (rows,)."""
    array, compute, kind = column.values, arrow("compute"), arrow().float64()
    try:
        numbers = array.cast(kind)
    except (arrow().ArrowInvalid, arrow().ArrowNotImplementedError):
        numbers = arrow().array([finite_or_none(value) for value in array.to_pylist()], kind)
    valid = compute.fill_null(compute.is_finite(numbers), fill_value=False)
    if not compute.all(valid, min_count=0).as_py():
        row = valid.to_pylist().index(False)
        problem = f"found {array[row].as_py()!r:.40}, which is not a finite number"
        raise column.error(row, problem, "correct it, or name another column")
    values: Array = numbers.to_numpy(zero_copy_only=False)
    return values


def time_column(column: TableColumn, unit: TimeUnit) -> IntArray:
    """A column of event times, microseconds since the epoch; shape (rows,).

    `column`: Arrow timestamps or dates in any unit, or numbers or text in `unit`; UTC without a
    zone or an offset.
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
            raise InputError("{problem}; correct the file.", problem=problem) from error
        if (outside := outside_range(times)).size:
            raise column.error(int(outside[0]), f"not in {YEARS}", "correct the file")
        return times
    is_number = types.is_large_string(array.type) and unit != "iso8601"
    read = []
    for row, value in enumerate(array.to_pylist()):
        number = finite_or_none(value) if is_number else None
        # Text of digits is parsed as an integer, because a float of microseconds is not exact.
        exact = int(value) if number is not None and str(value).strip().isdecimal() else number
        try:
            # Text without an offset is UTC, as timestamps of Arrow are.
            time = check_time(value if exact is None else exact, unit, column.name, naive=UTC)
            read.append(time)
        except Refusal as refusal:
            raise column.error(
                row,
                str(refusal),
                'write text like "2026-01-31T08:00:00Z", or say how time is written with '
                "{time_unit} (s, ms, us or iso8601)",
            ) from None
    return microsecond_column(read, unit)


def uses_of_time(column: TableColumn) -> set[Named]:
    """The settings that decide what a column of event times says."""
    types, kind = arrow().types, column.values.type
    has_unit = types.is_timestamp(kind) or types.is_date(kind)
    return {("columns", "time"), *([] if has_unit else [("time_unit", None)])}


def with_common_type(arrays: Sequence[Any], *, integers: bool = False) -> list[Any]:
    """Arrays of ids of one type: integers if all are integers, otherwise strings.

    `integers`: whether strings of digits also become integers.
    """
    if all(arrow().types.is_integer(array.type) for array in arrays):
        for kind in (arrow().int64(), arrow().uint64()):
            with suppress(arrow().ArrowInvalid):  # some integers do not fit
                return [array.cast(kind) for array in arrays]
    kind = arrow().int64() if integers else arrow().large_string()
    try:
        return [array.cast(kind) for array in arrays]
    except arrow().ArrowInvalid as error:
        raise _no_integers(f"ids: {' '.join(str(error).split())}") from error
