"""Inputs of a caller - paths, frames, mappings, lists, scores - as batches of decoded events."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias, TypeVar, cast

import msgspec
import numpy as np

from streameval.accumulator.intake import checked_batch, side_by_side
from streameval.decoding.columns import Decoded
from streameval.decoding.decode import Decoder
from streameval.decoding.fields import EventFields, TimeUnit
from streameval.engine.snapshot import JoinHealth, StreamHealth
from streameval.engine.windows.times import Spans
from streameval.evaluation.arguments import InputError, Named, Note, Options
from streameval.evaluation.event_rows import EventRows, Needs
from streameval.evaluation.files import (
    Frame,
    TableInput,
    TablePart,
    arrow,
    holds_rows,
    is_table,
    joined_parts,
    parts_of,
    table_name,
)
from streameval.evaluation.item_rows import (
    PairSide,
    Role,
    SideReader,
    common_topics,
    is_trec,
    read_labels,
    read_trec,
)
from streameval.evaluation.joins import (
    FIELDS_OF_JOINS,
    JoinBucket,
    JoinInputs,
    StreamTables,
    divide,
    empty_lists,
    read_impressions,
    read_interactions,
    rows_of_bucket,
)
from streameval.evaluation.pairs import Joined
from streameval.evaluation.score_matrix import are_scores, in_single, scored_columns
from streameval.evaluation.user_labels import LabelRows, UserLabels
from streameval.events import Batch, Event, Id
from streameval.events.arrow import ArrowTable, as_table, beyond_64_bits, row_name
from streameval.events.columns import Columns, read_columns
from streameval.events.errors import SourceError, UsageError
from streameval.events.ids import IdKind
from streameval.events.lines import LineBlock
from streameval.events.records import Partition, RecordBatch, group_batches
from streameval.events.rules import end_of
from streameval.events.spelling import suggestion
from streameval.join.attribution import OUTCOMES, OutcomeCounts, count_types, is_unnamed
from streameval.join.tables import Attribution, RowCounts, Stream, join_streams
from streameval.sources.files import NdjsonFile, first_record
from streameval.sources.opening import expand, size
from streameval.sources.remote import is_remote
from streameval.statistics.matching import Search

LINES_AT_ONCE: Final = 1_024
"""JSON lines decoded together: their strings fit into a cache of 2 MB."""

_ANY: Final = Search(depth=1)
"""A search for the kind of ids, whose hits are not used."""

_BUCKETS_PER_PROCESS: Final = 4
_ROWS_PER_BUCKET: Final = 1_000_000

_FORMS: Final = (
    "a path, a frame, a mapping of users, a list for each user, or a matrix of scores with truth="
)


ONLY_TREC_PAIRS: Final = "{form=trec} is for two files, the results and the qrels of trec_eval."

_Counts = TypeVar("_Counts", bound=OutcomeCounts)

_NAME: Final = re.compile(r"[^.\[\]]+")


class DecodedEvents(NamedTuple):
    """Some events of a source, what they were decoded from, and bytes of the part so far."""

    decoded: Decoded
    records: RecordBatch
    size: int = 0


class EventTexts(Sequence[bytes]):
    """Events that never were text, as JSON for messages about them."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch

    def __len__(self) -> int:
        return len(self._batch)

    def __getitem__(self, row: Any) -> Any:
        (event,) = self._batch.rows(row, row + 1).events()
        return msgspec.json.encode(event, enc_hook=list)


def _with_records(
    decoded: Decoded, partition: Partition, first: int, size: int = 0
) -> DecodedEvents:
    offsets = range(first, first + len(decoded.batch))
    records = RecordBatch(
        partition=partition,
        values=EventTexts(decoded.batch),
        offsets=offsets,
        next_offset=offsets.stop,
    )
    return DecodedEvents(decoded, records, size)


class HasMapping(Protocol):
    """A run or qrels of ranx."""

    def to_dict(self) -> Any:
        """The mapping of users."""


class HasDlpack(Protocol):
    """A tensor or an array."""

    def __dlpack__(self) -> Any: ...


Tabular: TypeAlias = (
    str | os.PathLike[str] | Iterable[Any] | ArrowTable | Columns | Batch | HasMapping | HasDlpack
)
"""What may have recommendations or interactions: a path, a frame, a mapping, lists or a matrix."""

Rows: TypeAlias = list[TableInput] | PairSide
"""Files of rows, a frame, or rows that were read already."""


class CallInputs(NamedTuple):
    """The inputs of a call, before anything is read.

    Attributes:
        kind: "lines" and "tables" have an event in each record, "pair" rows of items in two tables,
            "aligned" a caller's lists, "scores" a matrix, and "state" stores of checkpoints.
        names: of the files and frames.
        events: tables or paths of lines; or the lists.
        recommendations: the rows of a pair.
        truth: in the same forms; or the interactions of lists and scores.
        exclude: rows, or lists, of items that each list leaves out; None for none.
        users: tables of users and their labels; None for none.
    """

    kind: Literal["lines", "tables", "joined", "pair", "aligned", "scores", "state"]
    names: Sequence[str]
    events: Any = ()
    recommendations: Any = None
    truth: Any = None
    exclude: Any = None
    users: Any = None

    @property
    def is_pair(self) -> bool:
        """True if events are made of rows or lists, so that they have no labels."""
        return self.kind in ("pair", "aligned", "scores")

    @property
    def tables(self) -> Sequence[TableInput]:
        """The files of a pair and the frames, and what is left out of their lists."""
        if self.kind == "tables":
            return list(self.events)
        if self.kind == "joined":
            return list(self.events.tables)
        sides = (self.recommendations, self.truth, self.exclude) if self.kind == "pair" else ()
        tables = [table for side in sides if isinstance(side, list) for table in side]
        return [*tables, *(self.users or ())]

    @property
    def stream_names(self) -> Sequence[str]:
        """The names of what is joined, impressions first; empty if nothing is."""
        return self.events.names if self.kind == "joined" else ()

    @property
    def is_columns(self) -> bool:
        """True if events come from columns, not from JSON lines."""
        return self.kind not in ("lines", "state")

    @property
    def is_state(self) -> bool:
        """True if the events are counted already, in stores of checkpoints."""
        return self.kind == "state"


def inputs_of(
    recommendations: Any, truth: Any, exclude: Any, options: Options, users: Any = None
) -> CallInputs:
    """Classify the inputs of a call; refuse those in no form that can be evaluated."""
    call = _inputs_of(recommendations, truth, exclude, options)
    if users is None:
        return call
    if not call.is_pair or call.truth is None:
        raise InputError("{users} needs {truth}; events have labels of their own.")
    if not options.by:
        raise InputError("{users} needs {by}, the labels to split by.")
    return call._replace(users=_users_of(users, call, options))


def _users_of(users: Any, call: CallInputs, options: Options) -> Sequence[TableInput]:
    """A table of users and their labels."""
    if is_path(users):
        return files_at(os.fspath(users))
    if is_frame(users):
        return [Frame("users", as_table(users))]
    by_user = users
    if not isinstance(users, Mapping):
        if call.kind == "pair" or not isinstance(users, Iterable):
            raise UsageError(
                f"users: found {users!r:.80}; give a path, a frame or {{user: label}}."
            )
        by_user, lists = dict(enumerate(users)), call.events
        # A pair is values and offsets; a sparse matrix has no length.
        if isinstance(lists, tuple):
            count = len(lists[1]) - 1
        else:
            count = lists.shape[0] if hasattr(lists, "shape") else len(lists)
        if len(by_user) != count:
            raise UsageError(f"users: found {len(by_user):,} labels for {count:,} lists.")
    name = options.by[0]
    rows = [of if isinstance(of, Mapping) else {name: of} for of in by_user.values()]
    columns = {name: [row.get(name) for row in rows] for row in rows for name in row}
    return [Frame("users", _table("users", {"user": [*by_user], **columns}), has_usual_names=True)]


def _inputs_of(recommendations: Any, truth: Any, exclude: Any, options: Options) -> CallInputs:
    if not is_frame(recommendations) and are_scores(recommendations):
        return CallInputs(
            "scores", ["the scores given"], recommendations, truth=truth, exclude=exclude
        )
    if truth is None:
        if exclude is not None:
            raise InputError("{exclude} needs {truth}.")
        return _events(recommendations, options)
    if _are_lists(recommendations):
        if exclude is not None:
            raise InputError(
                "{exclude} is for rows, mappings and scores: leave items out of lists."
            )
        return CallInputs("aligned", ["the lists given"], recommendations, truth=truth)
    sides = rows_of("recommendations", recommendations), rows_of("truth", truth)
    seen = None if exclude is None else rows_of("truth", exclude)
    names = [rows.path if isinstance(rows, PairSide) else table_name(rows[0]) for rows in sides]
    return CallInputs("pair", names, recommendations=sides[0], truth=sides[1], exclude=seen)


def _events(value: Any, options: Options) -> CallInputs:
    if isinstance(value, Batch | Columns):
        return CallInputs("aligned", ["the lists given"], value)
    if is_frame(value):
        return CallInputs("tables", ["the frame"], [Frame("the frame", as_table(value))])
    if isinstance(value, Mapping):
        raise InputError("give {truth}, the interactions of each user of the recommendations.")
    if is_path(value):
        value = [value]
    if not isinstance(value, Iterable):
        raise UsageError(f"found {value!r:.80}; give {_FORMS}.")
    rows: list[Any] = list(value)
    if rows and all(map(is_path, rows)):
        files = expand_paths([os.fspath(row) for row in rows])
        if options.form is None:
            lines = [path for path in files if not is_table(path)]
        else:
            lines = files if options.form == "json" else []
        if 0 < len(lines) < len(files):
            raise UsageError(
                f"{lines[0]} is not a table, and other files are; evaluate them separately."
            )
        return CallInputs("lines" if lines else "tables", files, files)
    if all(isinstance(row, Event) or (isinstance(row, tuple) and len(row) == 2) for row in rows):
        return CallInputs("aligned", ["the lists given"], rows)
    raise InputError(
        "give {truth}, the interactions of each list; without it, events are a path, a frame with "
        "recommendations and interactions, or pairs of them."
    )


def inputs_of_join(
    impressions: Any, interactions: Any, rule: Attribution | None, options: Options
) -> CallInputs:
    """Impressions and interactions that a caller gave, in tables.

    `interactions`: one stream, or several by name.
    """
    if impressions is None or interactions is None:
        raise InputError("{impressions} and {interactions} are joined; give both.")
    named = interactions if isinstance(interactions, Mapping) else {"interactions": interactions}
    streams = {name: _tables_of(str(name), of) for name, of in named.items()}
    impression_tables = _tables_of("impressions", impressions)
    names = [
        table_name(table) for tables in (impression_tables, *streams.values()) for table in tables
    ]
    columns = {name: of for name, of in options.columns.items() if name in FIELDS_OF_JOINS}
    unit, of = options.time_unit, rule or Attribution()
    joined = JoinInputs(
        StreamTables(impression_tables, columns, unit, of),
        [StreamTables(tables, columns, unit, of) for tables in streams.values()],
        ["impressions", *map(str, streams)],
        has_rule=rule is not None,
    )
    return CallInputs("joined", names, joined)


def _tables_of(name: str, value: Any) -> Sequence[TableInput]:
    if is_frame(value):
        return [Frame(name, as_table(value))]
    values = [value] if is_path(value) or not isinstance(value, Iterable) else list(value)
    if values and all(map(is_path, values)):
        return expand_paths([os.fspath(path) for path in values])
    if not values or not all(map(is_frame, values)):
        problem = f"{name}: found {value!r:.80}"
        raise UsageError(f"{problem}; give a path, a frame, or several of them.")
    return [Frame(name, as_table(frame)) for frame in values]


def expand_paths(paths: Iterable[str]) -> list[str]:
    """The files that paths, folders and patterns name, each once."""
    files = [file_path for path in paths for file_path in files_at(path)]
    if len({*files}) < len(files):
        twice = next(path for path in files if files.count(path) > 1)
        raise UsageError(f"{twice}: given twice; give each file once.")
    return files


def files_at(path: str) -> list[str]:
    """The files that a path, a folder or a pattern names; refuses a store of checkpoints."""
    if path.endswith("/") if is_remote(path) else Path(path).is_dir():
        from streameval.checkpoints.store import is_store  # noqa: PLC0415  for folders alone

        if is_store(path):
            problem = "a store of checkpoints, whose events are counted already"
            raise UsageError(f"{path}: {problem}; `streameval state export` prints its values.")
    return expand(path, holds_rows)


def is_path(value: object) -> bool:
    """True if it names files."""
    return isinstance(value, str | os.PathLike)


def is_frame(value: Any) -> bool:
    """True if it is a table with columns, of any library; a lazy one is refused later."""
    if isinstance(value, Columns | Batch) or hasattr(value, "dtype"):
        return False
    named = hasattr(value, "collect_schema") or hasattr(value, "columns")
    return named or (isinstance(value, ArrowTable) and hasattr(value, "schema"))


def _are_lists(value: Any) -> bool:
    """True if it is a list of items for each user, one after the other."""
    if (
        isinstance(value, PairSide)
        or is_path(value)
        or is_frame(value)
        or _mapping(value) is not None
    ):
        return False
    if isinstance(value, Sequence) and not isinstance(value, tuple):
        return not value or not (hasattr(value[0], "_fields") or isinstance(value[0], Frame))
    ragged = isinstance(value, tuple) and len(value) == 2 and hasattr(value[0], "dtype")
    return hasattr(value, "dtype") or hasattr(value, "__arrow_c_stream__") or ragged


def _as_list(values: Any) -> list[Any]:
    """The items of a user; those of an array as numbers of Python."""
    return values.tolist() if hasattr(values, "tolist") else list(values)


def _mapping(value: Any) -> Mapping[Any, Any] | None:
    """A mapping of users, also of ranx' Run and Qrels; None for anything else."""
    if isinstance(value, Mapping):
        return value
    # Run and Qrels hold a mapping of Numba's, and have a method that gives one of Python's.
    to_dict = getattr(value, "to_dict", None)
    if to_dict is None or is_frame(value) or hasattr(value, "dtype"):
        return None
    mapping = to_dict()
    return mapping if isinstance(mapping, Mapping) else None


def rows_of(role: Role, value: Any) -> Rows:
    """Recommendations or truth as files, or as a table of rows."""
    if isinstance(value, PairSide):
        return value
    if is_path(value):
        return [*files_at(os.fspath(value))]
    if is_frame(value):
        return [Frame(role, as_table(value))]
    by_user = _mapping(value)
    if by_user is not None:
        return [_of_mapping(role, by_user)]
    if isinstance(value, Iterable):
        rows = list(value)
        if rows and hasattr(rows[0], "_fields"):
            columns = zip(*rows, strict=True)
            table = _table(role, dict(zip(rows[0]._fields, columns, strict=True)))
            return [Frame(role, table)]
        if role == "truth":
            return [_of_mapping(role, dict(enumerate(rows)))]
    raise UsageError(f"{role}: found {value!r:.80}; give {_FORMS}.")


def _table(
    name: str,
    columns: Mapping[str, Sequence[Any]],
    where: Callable[[int], str] = row_name,
) -> Any:
    try:
        return arrow().table(
            {column_name: arrow().array(column) for column_name, column in columns.items()}
        )
    except OverflowError as error:
        why, _, remedy = beyond_64_bits(columns.items(), where).partition("; ")
        raise SourceError(name, why, remedy) from error
    except (arrow().ArrowInvalid, arrow().ArrowTypeError) as error:
        why = " ".join(str(error).split())
        remedy = "give ids that are all text or all integers, and numbers as scores"
        raise SourceError(name, why, remedy) from error


def _of_mapping(role: Role, value: Mapping[Any, Any]) -> Frame:
    """Rows of user -> {item: number}, of user -> items, or of user -> pairs of item and number."""
    users: list[Any] = []
    items: list[Any] = []
    numbers: list[Any] = []
    idle: list[Any] = []
    for user, of_user in value.items():
        if isinstance(of_user, str) or not isinstance(of_user, Iterable):
            raise UsageError(
                f"{role}: user {user!r} has {of_user!r:.80}; give items, or item -> number."
            )
        if isinstance(of_user, set | frozenset) and role != "truth":
            raise UsageError(f"{role}: user {user!r} has a set, which has no order; give a list.")
        entries = _as_list(of_user)
        if isinstance(of_user, Mapping):
            numbers += of_user.values()
        elif entries and all(
            isinstance(entry, tuple | list) and len(entry) == 2 for entry in entries
        ):
            numbers += [number for _, number in entries]
            entries = [item for item, _ in entries]
        if not numbers:
            entries = entries[: end_of(entries)]
        users += [user] * len(entries)
        items += entries
        if not entries:
            idle.append(user)
    if numbers and len(numbers) != len(items):
        raise UsageError(f"{role}: some users have numbers and others only items; give one form.")
    number = {"rating" if role == "truth" else "score": numbers} if numbers else {}
    # The rows are not the caller's, who has users.
    rows = _table(
        role, {"user": users, "item": items, **number}, lambda row: f"user {users[row]!r:.40}"
    )
    without_rows = (
        _table(role, {"user": idle}, lambda row: f"user {idle[row]!r:.40}") if idle else None
    )
    return Frame(role, rows, without_rows, has_usual_names=True)


class Lines:
    """JSON lines with one event each; every file is a part.

    Attributes, as of every source:
        names: of its files and frames.
        ids: kind of their ids; None if the first id decides.
        parts: what several processes may count apart from each other.
        sizes: of each part, bytes; None if one process must count them all.
        notes: warnings about the inputs.
        outcomes: of the rows of a join so far; empty if nothing is joined.
        used: the settings that have decided something so far.
    """

    notes: Sequence[Note] = ()
    outcomes: Sequence[OutcomeCounts] = ()

    def __init__(
        self,
        paths: Sequence[str],
        fields: EventFields,
        labels: Sequence[str],
        options: Options,
    ) -> None:
        self.names = self.parts = paths
        self.ids: IdKind | None = "integer" if fields.ids == "integer" else "text"
        self.used: set[Named] = set()
        names: list[tuple[Named, str | None]] = [
            (("columns", field), name) for field, name in options.columns.items()
        ]
        if options.combine is not None:
            # Objects have a gain each, of 1 if not of their own.
            names += [(("combine", None), name) for name in (fields.interaction_item, fields.gains)]
        # The last name of a path like payload.items[].id, as the text of a record has it.
        self._unseen = [
            (setting, f'"{_NAME.findall(name)[-1]}"'.encode())
            for setting, name in names
            if name and _NAME.search(name)
        ]
        if fields.time is not None:
            self.used.add(("time_unit", None))
        self._fields, self._labels = fields, labels
        self._decoders: dict[Search, Decoder] = {}

    @property
    def sizes(self) -> Sequence[int] | None:
        """The size of each file; None with a pipe."""
        sizes = [of_path for path in self.parts if (of_path := size(path)) is not None]
        return sizes if len(sizes) == len(self.parts) else None

    def read(self, part: Any, search: Search) -> Iterator[DecodedEvents]:
        """The events of a part, batch by batch; invalid lines are left out, with a reason."""
        file = NdjsonFile(part)
        if search not in self._decoders:
            self._decoders[search] = Decoder(self._fields, self._labels, search)
        decoder = self._decoders[search]
        try:
            while not file.finished:
                read = file.read()
                self._note_fields(cast("LineBlock", read.values).block)
                for (batch,) in group_batches([read], LINES_AT_ONCE):
                    # No name holds the events, or the next ones would not get their memory.
                    yield DecodedEvents(decoder.decode_many(batch.values), batch, file.bytes_read)
        finally:
            file.close()

    def _note_fields(self, block: bytes) -> None:
        """Note which of the settings some record has a field for, by its text."""
        for setting, name in [*self._unseen]:
            if name in block:
                self.used.add(setting)
                self._unseen.remove((setting, name))


class EventTables:
    """Tables with one event per row; every row group of parquet is a part."""

    notes: Sequence[Note] = ()
    outcomes: Sequence[OutcomeCounts] = ()

    def __init__(self, tables: Sequence[TableInput], rows: EventRows, options: Options) -> None:
        self.names = [table_name(table) for table in tables]
        parts = [parts_of(table, options) for table in tables]
        if rows.in_order:
            parts = [[joined_parts(of_table)] for of_table in parts]
        self.parts = [part for of_table in parts for part in of_table]
        self.sizes: Sequence[int] | None = [part.size for part in self.parts]
        rows.find_kind(self.parts)
        self.ids: IdKind | None = rows.ids
        self.used, self._rows = rows.used, rows

    def __getstate__(self) -> dict[str, Any]:
        # Another process gets the parts that it counts.
        return {**vars(self), "parts": []}

    def read(self, part: Any, search: Search) -> Iterator[DecodedEvents]:
        """The events of a part, batch by batch."""
        partition = Partition(part.path, min(part.groups, default=0))
        for first, decoded in self._rows.read(part, search):
            yield _with_records(decoded, partition, first, part.size)


class JoinSource:
    """The lists of a join; with several processes, each bucket of keys is a part.

    Attributes:
        outcomes: of the rows that were joined, of impressions and then of each stream.
    """

    notes: Sequence[Note] = ()

    def __init__(
        self, inputs: JoinInputs, names: Sequence[str], rows: EventRows, options: Options
    ) -> None:
        self.names, self._rows, self._rule = names, rows, inputs.impressions.rule
        others = rows.other_columns(self._rule.per)
        impressions, self.used = read_impressions(inputs.impressions, options, others)
        streams = []
        for stream in inputs.interactions:
            table, used = read_interactions(stream, options)
            streams.append(Stream(table, stream.rule))
            self.used |= used
        self.outcomes: Sequence[RowCounts] = [RowCounts() for _ in (impressions, *streams)]
        self._unnamed_types = [{}, *map(_unnamed_types, streams)]
        self._stream_names = inputs.names
        empty = empty_lists(impressions, self._rule)
        rows.find_kind([TablePart(Frame("impressions", empty), 0, kind=empty.schema)])
        self.ids: IdKind | None = rows.ids
        self._streams = [stream._replace(table=None) for stream in streams]
        self.sizes: Sequence[int] | None = None
        self.parts: Sequence[Any] = [(impressions, streams)]
        if options.processes > 1 and not rows.in_order:
            size = impressions.num_rows + sum(stream.table.num_rows for stream in streams)
            buckets = max(_BUCKETS_PER_PROCESS * options.processes, size // _ROWS_PER_BUCKET)
            self.parts = divide(impressions, streams, self._rule, buckets)
            self.sizes = [part.size for part in self.parts]

    def __getstate__(self) -> dict[str, Any]:
        # Another process gets the parts that it counts.
        return {**vars(self), "parts": []}

    @property
    def health(self) -> JoinHealth:
        """The outcomes so far as a daemon has them."""
        streams = [
            StreamHealth(
                name=name,
                outcomes={outcome: getattr(counts, outcome) for outcome in OUTCOMES},
                open=0,
                outside=counts.outside,
                unlisted=counts.unlisted,
                unnamed_types=types,
            )
            for name, counts, types in zip(
                self._stream_names, self.outcomes, self._unnamed_types, strict=True
            )
        ]
        by_request = self._rule.key == "request_id"
        return JoinHealth(
            streams=tuple(streams), bytes=0, clocks=(), idle_timeouts=0, by_request=by_request
        )

    def read(self, part: Any, search: Search) -> Iterator[DecodedEvents]:
        """The lists of a part."""
        is_bucket = isinstance(part, JoinBucket)
        impressions, streams = rows_of_bucket(part, self._streams) if is_bucket else part
        joined = join_streams(impressions, streams, self._rule)
        rows = [0 if stream.table is None else stream.table.num_rows for stream in streams]
        ends = np.cumsum(rows).tolist()
        stream_counts = [
            joined.counts_of(slice(end - size, end)) for end, size in zip(ends, rows, strict=True)
        ]
        self.outcomes = add_outcomes(self.outcomes, [joined.counts[0], *stream_counts])
        lists, hidden_losses = joined.lists, joined.hidden_losses
        if not lists.num_rows:
            return  # Without impressions, a bucket has none of their other columns.
        if self._rows.in_order:
            order = arrow("compute").sort_indices(lists["times"])
            lists, hidden_losses = lists.take(order), hidden_losses[order.to_numpy()]
        number, size = (part.number, part.size) if is_bucket else (0, 0)
        frame = Frame("impressions", lists)
        for first, decoded in self._rows.read(TablePart(frame, size, kind=lists.schema), search):
            hidden = hidden_losses[first : first + len(decoded.batch)].tolist()
            if any(hidden):
                batch = msgspec.structs.replace(decoded.batch, hidden_losses=hidden)
                decoded = msgspec.structs.replace(decoded, batch=batch)  # noqa: PLW2901  the same rows
            # Here all times are microseconds.
            self.used |= self._rows.used - {("time_unit", None)}
            yield _with_records(decoded, Partition(frame.name, number), first, size)


def _unnamed_types(stream: Stream) -> dict[str, int]:
    """The types of the interactions that neither `types` nor `ignore` names, and how many each."""
    counts: dict[str, int] = {}
    table = stream.table
    if table is not None and "type" in table.column_names:
        for row in table["type"].value_counts().to_pylist():
            if is_unnamed(stream.rule, row["values"]):
                count_types(counts, [row["values"]], row["counts"])
    return counts


def add_outcomes(left: Sequence[_Counts], right: Sequence[_Counts], sign: int = 1) -> list[_Counts]:
    """The outcomes of both, of each stream; their difference with the sign -1."""
    return [outcomes.plus(other, sign) for outcomes, other in zip(left, right, strict=True)]


class EventsInMemory:
    """Events of a caller's lists, scores or rows: a part for each span, counted by one process.

    Args:
        spans: the start of each, None for all time, with its events.
        labels: of their users.
        used: the settings that decided how they were read.
    """

    sizes: Sequence[int] | None = None
    outcomes: Sequence[OutcomeCounts] = ()

    def __init__(
        self,
        names: Sequence[str],
        spans: Sequence[tuple[int | None, Any]],
        ids: IdKind | None,
        notes: Sequence[Note] = (),
        labels: UserLabels | None = None,
        used: Iterable[Named] = (),
    ) -> None:
        self.names, self.notes, self.used = names, notes, {*used}
        self.ids: IdKind | None = ids
        self._spans, self._labels = spans, labels
        self.parts = range(len(spans))

    def read(self, part: Any, search: Search) -> Iterator[DecodedEvents]:
        """The events of a part."""
        start, events = self._spans[part]
        batch = checked_batch(self.ids, events, search)[1]
        if start is not None:
            batch = msgspec.structs.replace(batch, times=np.full(len(batch), start, np.int64))
        elif batch.times is not None:
            batch = msgspec.structs.replace(batch, times=np.array(batch.times, np.int64))
        dimensions = None if self._labels is None else self._labels.of(batch.users or ())
        decoded = Decoded(batch=batch, dimensions=dimensions, indices=np.arange(len(batch)))
        yield _with_records(decoded, Partition("recommendations", part), 0)


def joined_rows(
    call: CallInputs, options: Options, fields: EventFields, needs: Needs, every: Spans | None
) -> EventsInMemory:
    """Rows of recommendations and truth, joined by user."""
    clock: tuple[str, TimeUnit] | None = None
    if every is not None and fields.time is not None:
        clock = (fields.time, fields.time_unit or "iso8601")
    trec = _is_trec_pair(call.recommendations, call.truth, options)
    if trec and every is not None:
        raise InputError("{every} needs event time, and trec_eval's files have none.")
    recommendations = _side("recommendations", call.recommendations, options, clock, trec=trec)
    truth = _side("truth", call.truth, options, clock, trec=trec)
    notes = [*recommendations.notes, *truth.notes]
    if needs.single:
        double, recommendations = recommendations.values, recommendations.in_single()
        made_equal = _distinct(double) - _distinct(recommendations.values)
        if needs.others and made_equal:
            notes.append(
                Note(
                    f"scores that are equal as 32-bit floats: {made_equal:,}; trec_eval compares "
                    "those, and so do all other metrics beside a `trec:` metric."
                )
            )
    tables = [recommendations.labels, truth.labels]
    used = {*recommendations.used, *truth.used}
    if trec:
        recommendations, truth, unmatched = common_topics(recommendations, truth)
        if unmatched:
            problem = "topics are in only one file and are left out, as in trec_eval."
            notes.append(Note(f"{unmatched:,} " + problem))
    exclude = None
    if call.exclude is not None:
        # Every row is left out, whatever its rating.
        columns = {**options.columns, "rating": None}
        without_labels = msgspec.structs.replace(options, columns=columns, by=())
        exclude = _side("truth", call.exclude, without_labels, None)
        notes += exclude.notes
        used |= {*exclude.used} - {("columns", "rating")}
    ties = options.ties or ("id_desc" if trec else None)
    joined = Joined(recommendations, truth, exclude, ties, fields)
    if needs.repeats:
        joined.note_repeats_in_truth()
    # The form is known, so an item called 0 or 1 is no mark.
    spans = [
        (start, read_columns(columns, may_be_marks=False))
        for start, columns in joined.columns(every, users=needs.users, scores=needs.scores)
    ]
    ids: IdKind = "integer" if joined.is_integer else "text"
    notes += joined.notes
    used |= {("ties", None)} if joined.uses_ties else set()
    used |= {("combine", None)} if truth.values is not None else set()
    labels = _user_labels(call, options, joined.users, notes, used, tables)
    return EventsInMemory(call.names, spans, ids, notes, labels, used)


def _distinct(numbers: Any) -> int:
    return 0 if numbers is None else np.unique(numbers).size


def _user_labels(
    call: CallInputs,
    options: Options,
    users: Collection[Id],
    notes: list[Note],
    used: set[Named],
    tables: Sequence[LabelRows | None] = (),
) -> UserLabels | None:
    """The labels by which values are split; adds a note about users without one, and settings."""
    if not options.by:
        return None
    column_labels = None if call.users is None else read_labels(call.users, options)
    used |= {("columns", label) for label in options.by} | {
        *(() if column_labels is None else column_labels.used)
    }
    labels = UserLabels(
        options.by, [table for table in (column_labels, *tables) if table is not None]
    )
    notes += labels.notes(users)
    return labels


def _side(
    role: Role,
    rows: Rows,
    options: Options,
    clock: tuple[str, TimeUnit] | None,
    *,
    trec: bool = False,
) -> PairSide:
    if not isinstance(rows, list):
        return rows
    if trec:
        return read_trec(table_name(rows[0]), role)
    return SideReader(role, options, clock).read(rows)


def _is_trec_pair(recommendations: Rows, truth: Rows, options: Options) -> bool:
    """True if both are trec_eval's files; refuses one of them alone, and both swapped."""
    if options.form == "trec":
        if any(
            isinstance(rows, list) and isinstance(rows[0], Frame)
            for rows in (recommendations, truth)
        ):
            raise InputError(ONLY_TREC_PAIRS)
        return True
    results = _only_file(recommendations)
    qrels = truth.path if isinstance(truth, PairSide) else _only_file(truth)
    if options.form is not None or options.header is not None or results is None or qrels is None:
        return False
    are_results = is_trec(results, "recommendations")
    are_qrels = truth.is_trec if isinstance(truth, PairSide) else is_trec(qrels, "truth")
    swapped = not isinstance(truth, PairSide) and is_trec(results, "truth")
    if swapped and is_trec(qrels, "recommendations"):
        raise InputError(
            "{results} looks like trec_eval's qrels and {qrels} like its results; give the "
            "results as {recommendations} and the qrels as {truth}.",
            results=results,
            qrels=qrels,
        )
    if are_results != are_qrels:
        trec, other = (results, qrels) if are_results else (qrels, results)
        raise InputError(
            "{trec} looks like a file of trec_eval and {other} does not; give two of trec_eval or "
            "two tables, or say which they are with {form}.",
            trec=trec,
            other=other,
        )
    return are_results


def _only_file(rows: Rows) -> str | None:
    table = rows[0] if not isinstance(rows, PairSide) and len(rows) == 1 else None
    return table if isinstance(table, str) else None


def truth_of(rows: Rows, options: Options) -> PairSide:
    """The truth that several models share, read once."""
    path, trec = _only_file(rows), options.form == "trec"
    if options.form is None and options.header is None and path is not None:
        trec = is_trec(path, "truth")
    return _side("truth", rows, options, None, trec=trec)


def field_suggestion(call: CallInputs, name: str) -> str:
    """The question which field of JSON lines a misspelt name means; empty without a similar one."""
    return suggestion(name, first_record(call.events)) if call.kind == "lines" else ""


def list_events(call: CallInputs, options: Options) -> EventsInMemory:
    """A caller's lists, or events, as `Accumulator.update_many` takes them.

    Lists beside a truth belong to the users 0, 1, 2, ...
    """
    events = call.events
    if call.truth is not None:
        events = side_by_side(call.events, call.truth)
        if not isinstance(events, Columns):
            lists, interactions = zip(*events, strict=True) if events else ((), ())
            users = list(range(len(events)))
            events = Batch(recommendations=[*lists], interactions=[*interactions], users=users)
    kind, batch = checked_batch(None, events, _ANY)
    notes, used = list[Note](), set[Named]()
    numbers = range(len(batch))
    if options.by and batch.users is None:
        events = msgspec.structs.replace(events, users=np.arange(len(batch)))
    labels = _user_labels(call, options, numbers, notes, used)
    return EventsInMemory(call.names, [(None, events)], kind, notes, labels, used)


def scored_events(
    call: CallInputs, depth: int | None, options: Options, needs: Needs
) -> EventsInMemory:
    """A matrix of scores: the best items of each user, some users at a time."""
    scores = in_single(call.events) if needs.single else call.events
    columns, notes = scored_columns(
        scores, call.truth, call.exclude, options.ties, depth, with_scores=needs.scores
    )
    spans = [(None, part) for part in columns]
    used: set[Named] = {("ties", None)}
    labels = _user_labels(call, options, range(np.shape(call.events)[0]), notes, used)
    return EventsInMemory(call.names, spans, "integer", notes, labels, used)


def usual_user(call: CallInputs, fields: EventFields, labels: Sequence[str]) -> EventFields:
    """The fields; users are read from `users` where the first JSON line has no `user`."""
    if call.kind != "lines" or fields.user != EventFields().user:
        return fields
    first = first_record(call.events)
    if fields.user in first or "users" not in first or "users" in labels:
        return fields
    return msgspec.structs.replace(fields, user="users")


EventSource: TypeAlias = Lines | EventTables | JoinSource | EventsInMemory
"""What a caller gave, whose events are read part by part."""
