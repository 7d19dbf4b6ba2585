"""The join itself: its result depends on the records, and on their order only for late ones."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import chain, takewhile
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import msgspec
import numpy as np

from streameval.decoding.columns import Decoded
from streameval.decoding.invalid import InvalidEvent
from streameval.engine.clock import BEFORE_ALL, Int64
from streameval.engine.windows.sections import Section
from streameval.events import Interaction
from streameval.events.ragged import Ragged
from streameval.join.attribution import (
    FOREVER,
    AttributionKey,
    Outcome,
    OutcomeCounts,
    Rules,
    count_types,
)
from streameval.join.closed_lists import make_events
from streameval.join.interactions import InteractionColumns
from streameval.join.kernel import InteractionKeys, ListColumns, are_in_lists, last_touches
from streameval.join.logs import RecordSlice
from streameval.join.open_records import (
    Index,
    ItemNumbers,
    KeysOf,
    OpenInteractions,
    OpenLists,
    OpenRecords,
    OpenTable,
    as_open_lists,
    too_many_open,
)
from streameval.statistics.arrays import BoolArray, IntArray
from streameval.statistics.vocabulary import Codes

STEP_LIMIT: Final = 1_024
"""Limit of one step: records of each log, lists that close, interactions that are attributed."""

MANY_LISTS: Final = 128
"""Lists of a user above which `Touches` indexes them by item, so that a search stays cheap."""

CountClosed: TypeAlias = Callable[[Decoded], Mapping[int, InvalidEvent]]
"""Counts events; returns the rows that cannot be counted, each with the reason."""


_LIST_KEYS: Final[Mapping[AttributionKey, Mapping[str, KeysOf[OpenLists]]]] = {
    "request_id": {"ids": lambda lists, indices: [lists.requests[at] for at in indices]},
    "user_item": {
        "ids": lambda lists, indices: [
            (lists.users[at], lists.requests[at]) if lists.requests[at] else "" for at in indices
        ],
        "users": lambda lists, indices: [lists.users[at] for at in indices],
    },
}
_INTERACTION_KEYS: Final[Mapping[str, KeysOf[OpenInteractions]]] = {
    "ids": lambda interactions, indices: interactions.ids[indices].tolist()
}


class Listener(Protocol):
    """Follows records through a join."""

    def rejected(self, outcome: Outcome, records: OpenRecords, row: int) -> None:
        """A record was rejected: it is part of no event."""

    def counted(self, lists: OpenLists, row: int, interactions: Sequence[int]) -> None:
        """A list became an event with the interactions in these rows."""


class Attributed(NamedTuple):
    """An interaction that belongs to a list, with its row and the number of its stream."""

    row: int
    stream: int
    interaction: Interaction


class Touches:
    """The lists of one user by item and labels, in the order of time and content.

    Attributes:
        size: number of lists that were added.
    """

    def __init__(
        self, lists: OpenTable[OpenLists], labels: Callable[[int], tuple[str, ...]]
    ) -> None:
        self._lists, self._labels = lists, labels
        self._rows: dict[int, dict[tuple[str, ...], list[int]]] = {}
        self._last: int | None = None
        self.size = 0

    def extend(self, rows: Sequence[int]) -> None:
        """Add the rows that were not added before; `rows`: all rows of the user, by time."""
        new = [*takewhile(lambda row: row != self._last, reversed(rows))]
        if not new:
            return
        self._last, self.size = new[0], self.size + len(new)
        times = [*map(self._lists.time, new)]
        if len(set(times)) < len(times):
            new.sort(key=lambda row: (self._lists.time(row), self._lists.content(row)))
        else:
            new.reverse()
        for row in new:
            lists, index = self._lists.at(row)
            labels = self._labels(row)
            start, stop = lists.items.offsets[index : index + 2].tolist()
            for item in set(lists.items.values[start:stop].tolist()):
                self._rows.setdefault(item, {}).setdefault(labels, []).append(row)

    def latest(self, item: int, time: int, window: int) -> list[int]:
        """The latest list with an item in the window before a time for each label, by time."""
        candidates = list[tuple[int, tuple[str, ...], int]]()
        for labels, rows in self._rows.get(item, {}).items():
            row = rows[bisect_right(rows, time, key=self._time) - 1]
            if time - window <= self._time(row) <= time:
                candidates.append((self._time(row), labels, row))
        return [row for *_, row in sorted(candidates)]

    def _time(self, row: int) -> int:
        """The time of a list; BEFORE_ALL if it was dropped."""
        return self._lists.time(row) if row >= self._lists.first else BEFORE_ALL


class Joiner:
    """Holds open lists and interactions, and makes events of them as the watermark advances.

    When the watermark passes a record, no earlier one can come, so it is known whether the record
    repeats another, and which list an interaction belongs to. A list becomes an event when the
    watermark passes the end of its window.

    `streams`: number of the stream of each log; number 0 has the impressions.

    Attributes:
        watermark: no earlier record is expected, microseconds; BEFORE_ALL at first.
        outcomes: of the records of each stream.
        unlisted: number of orphans of each stream whose users had no list in the window before,
            since this object was made; not in the state.
        unnamed_types: of each stream, the number of ignored interactions by type that neither
            `types` nor `ignore` names; also since then, see `count_types`.
        listener: follows the records; None without one.
    """

    def __init__(self, rules: Rules, streams: Sequence[int]) -> None:
        self.rules = rules
        self.watermark = BEFORE_ALL
        self.outcomes = [OutcomeCounts() for _ in range(max(streams) + 1)]
        self.unlisted = [0] * len(self.outcomes)
        self.unnamed_types: list[dict[str, int]] = [{} for _ in self.outcomes]
        self.listener: Listener | None = None
        self._streams = streams
        self.items = ItemNumbers()
        by_user = rules.key == "user_item"
        self.lists: OpenTable[OpenLists] = OpenTable(
            "~join/shown/",
            OpenLists,
            rules.bucket,
            rules.window,
            self.items,
            _LIST_KEYS[rules.key],
        )
        self.interactions: OpenTable[OpenInteractions] = OpenTable(
            "~join/reported/",
            OpenInteractions,
            rules.bucket,
            rules.window + rules.lateness,
            self.items,
            _INTERACTION_KEYS,
        )
        self._touches: dict[str, Touches] = {}
        self._match = self._last_touches if by_user else self._named_lists
        self._attributions: defaultdict[int, list[Attributed]] = defaultdict(list)
        # (row of a list, row of an interaction that counts with a later list).
        self._counted_later: set[tuple[int, int]] = set()

    def add(self, stream: int, slices: Sequence[RecordSlice]) -> None:
        """Add the next records of a stream, from all of its logs."""
        counts = self.outcomes[stream]
        for part in slices:
            counts.records += part.records
            counts.tombstone += part.tombstones
            counts.invalid += len(part.invalid)
            if part.future is not None:
                early = self._open(stream, part._replace(content=part.future))
                for row in range(len(early)):
                    self._refuse(stream, "future", early, row)
            if len(part.content.indices):
                self._add(stream, part)

    def advance(
        self, watermark: int, newest: int, count: CountClosed
    ) -> Sequence[tuple[int, int, InvalidEvent]]:
        """Advance the watermark, by at most about `STEP_LIMIT` lists and interactions.

        Call it until the watermark is reached, and add records only then: so the result depends on
        the records alone.

        Args:
            watermark: the goal; FOREVER if no more records come.
            newest: the largest event time so far.
            count: counts the events of the lists that close, in the order of their time; returns
                the rows of those that it cannot count. Not called without events.

        Returns:
            The lists that could not be counted: number of the log, offset, and the reason.

        Raises:
            RefusedRecordsError: more records wait than the limits allow.
        """
        if watermark <= self.watermark:
            self._refuse_too_many()
            return ()
        before, goal = self.watermark, watermark
        for table in (self.lists, self.interactions):
            watermark = table.moment_after(before, watermark, STEP_LIMIT)
        begin, end = self._closing_time(before), self._closing_time(watermark)
        until = self.lists.moment_after(begin, end, STEP_LIMIT)
        if until < end:
            watermark = until + self.rules.window
        self.watermark = watermark
        self._decide(self.lists, before)
        for attributed, lists in self.attribute(self._decide(self.interactions, before)):
            if lists:
                self._wait(attributed, lists)
            else:
                self._refuse_orphan(attributed)
        rows = self.lists.between(begin, self._closing_time(watermark))
        uncountable = self._close(rows, count) if rows else ()
        self._drop(min(watermark, newest))
        if watermark == goal:
            self._refuse_too_many()
        return uncountable

    @property
    def size(self) -> int:
        """Approximate bytes of the records that wait."""
        return self.lists.size + self.interactions.size

    def open_lists(self) -> list[int]:
        """Rows of the lists that are not an event yet."""
        return self.lists.between(self._closing_time(self.watermark), FOREVER)

    def has_closed(self, offsets: Sequence[int], until: int) -> bool:
        """Return whether the lists below an offset of each log are over, up to a time."""
        limits = np.array(offsets, dtype=np.int64)
        latest = self.lists.latest(until, lambda rows: rows.offsets < limits[rows.logs])
        return latest < self._closing_time(self.watermark) or latest == BEFORE_ALL

    def preview(self) -> Iterator[tuple[Attributed, list[int]]]:
        """All interactions and their lists, as if no older record came; call nothing after it."""
        self.lists.decide(self.watermark, FOREVER)
        yield from self.attribute(self.interactions.between(BEFORE_ALL, FOREVER))

    def latest(self, until: int) -> int:
        """The largest time of a record up to a limit; BEFORE_ALL without one."""
        return max(self.lists.latest(until), self.interactions.latest(until))

    def attribute(self, rows: Sequence[int]) -> Iterator[tuple[Attributed, list[int]]]:
        """Interactions, each with the rows of the lists that it belongs to."""
        if not rows:
            return
        taken = self.interactions.take(rows)
        items = self.items.id_column(taken.items).ids()
        streams = [self._streams[log] for log in taken.logs.tolist()]
        interactions = map(Interaction, items, taken.gains, taken.types)
        yield from zip(
            map(Attributed, rows, streams, interactions), self._match(taken), strict=True
        )

    def _named_lists(self, interactions: OpenInteractions) -> Iterator[list[int]]:
        """The list with the id in the window before each interaction; there is at most one."""
        named = self.lists.by["ids"]
        for key, time in zip(interactions.keys, interactions.times.tolist(), strict=True):
            earliest = time - self.rules.window
            for row in named.rows(key):
                if earliest <= self.lists.time(row) <= time:
                    yield [row]
                    break
            else:
                yield []

    def _last_touches(self, interactions: OpenInteractions) -> list[list[int]]:
        """The latest list with the item in the window before, for each combination of `per`."""
        users: Codes[str] = Codes()
        user_codes = users.codes(interactions.keys)
        of_user = [self.lists.by["users"].rows(user) for user in users.names]
        touched: list[list[int]] = [[] for _ in interactions.keys]
        items = interactions.items.values.astype(np.int64)
        for code in [code for code, rows in enumerate(of_user) if len(rows) > MANY_LISTS]:
            touches = self._touches_of(users.names[code], of_user[code])
            for index in np.flatnonzero(user_codes == code).tolist():
                time = int(interactions.times[index])
                touched[index] = touches.latest(int(items[index]), time, self.rules.window)
            of_user[code] = ()
        rows = np.fromiter(chain.from_iterable(of_user), np.int64)
        order = np.argsort(rows)
        list_users = np.repeat(np.arange(len(of_user)), [*map(len, of_user)])[order]
        rows = rows[order]
        times, recommended = self.lists.times_and_items(rows)
        groups = np.zeros(rows.size, np.int64)
        if self.rules.per:
            labels = [self._labels(row) for row in rows.tolist()]
            number = {group: number for number, group in enumerate(sorted(set(labels)))}
            groups = np.fromiter(map(number.__getitem__, labels), np.int64, rows.size)
        matched, indices = last_touches(
            ListColumns(list_users, recommended, times, groups),
            InteractionKeys(user_codes, items, interactions.times),
            self.rules.window,
            self.lists.contents(rows),
        )
        order = np.lexsort((groups[indices], times[indices]))
        for index, row in zip(matched[order].tolist(), rows[indices[order]].tolist(), strict=True):
            touched[index].append(row)
        return touched

    def _touches_of(self, user: str, rows: Sequence[int]) -> Touches:
        """The touches of a user with many lists, up to date."""
        touches = self._touches.get(user)
        if touches is None or touches.size > 2 * len(rows):
            touches = self._touches[user] = Touches(self.lists, self._labels)
        touches.extend(rows)
        return touches

    def _labels(self, row: int) -> tuple[str, ...]:
        """The labels of a list by which interactions are attributed separately."""
        lists, index = self.lists.at(row)
        return tuple(lists.dimensions[index][label] for label in self.rules.per)

    def sections(self) -> Iterator[Section]:
        """The open records."""
        yield from self.lists.sections()
        yield from self.interactions.sections()

    def state_dict(self) -> dict[str, Any]:
        """The state besides the open records, as built-in values."""
        return {
            "accounts": [msgspec.to_builtins(outcome) for outcome in self.outcomes],
            "watermark": self.watermark,
        }

    def restore(self, state: Mapping[str, Any], parts: Mapping[str, bytes]) -> None:
        """Replace the content of a new object with the output of `state_dict` and `sections`."""
        self.outcomes = msgspec.convert(state["accounts"], list[OutcomeCounts])
        self.watermark = msgspec.convert(state["watermark"], Int64)
        self.lists.restore(parts)
        self.interactions.restore(parts)
        for table in (self.lists, self.interactions):
            table.decide(BEFORE_ALL, self.watermark)
        # The interactions of open lists are attributed again.
        closed = self._closing_time(self.watermark)
        for attributed, rows in self.attribute(self.interactions.between(closed, self.watermark)):
            self._wait(attributed, [row for row in rows if self.lists.time(row) >= closed])

    def _add(self, stream: int, part: RecordSlice) -> None:
        """Add records that are not from the future; count those that are late or ignored."""
        records = self._open(stream, part)
        late = records.times < np.maximum(part.before - self.rules.lateness, self.watermark)
        ignored = _ignored_mask(part.content)
        for row in np.flatnonzero(late | ignored).tolist():
            self._refuse(stream, "late" if late[row] else "ignored", records, row)
        if isinstance(part.content, InteractionColumns) and part.content.unnamed.any():
            rows = np.flatnonzero(part.content.unnamed & ~late).tolist()
            names = (str(part.content.types[row]) for row in rows)
            count_types(self.unnamed_types[stream], names)
        if (late | ignored).any():
            records = records.take(np.flatnonzero(~(late | ignored)))
        table: OpenTable[Any] = self.lists if isinstance(records, OpenLists) else self.interactions
        table.add(records)

    def _open(self, stream: int, part: RecordSlice) -> OpenRecords:
        """The records of a slice, with the numbers of their items."""
        content = part.content
        offsets = part.offsets[content.indices]
        if isinstance(content, Decoded):
            users = self.rules.needs_users
            return as_open_lists(content, self.items, part.log, offsets, users=users)
        return OpenInteractions(
            times=content.times,
            items=Ragged(self.items.number(content.items), np.arange(offsets.size + 1)),
            keys=[*content.keys],
            types=[*content.types],
            gains=[*content.gains],
            ids=_hashes(stream, content),
            logs=np.full(offsets.size, part.log),
            offsets=offsets,
        )

    def _decide(self, table: OpenTable[Any], before: int) -> list[int]:
        """The rows since a time that are not copies; counts and removes the copies.

        Of copies the earliest counts. Windows of lists of one id must not overlap; an interaction
        counts once within window and lateness.
        """
        rows, copies = table.decide(before, self.watermark)
        for row in copies:
            records, index = table.at(row)
            self._refuse(self._streams[records.logs[index]], "duplicate", records, index)
        table.remove(sorted(copies))
        return rows

    def _wait(self, attributed: Attributed, lists: Sequence[int]) -> None:
        """Hold an interaction until its lists are counted; it counts with the last of them."""
        for row in lists:
            self._attributions[row].append(attributed)
        if len(lists) > 1:
            self._counted_later.update((row, attributed.row) for row in lists[:-1])

    def _close(
        self, rows: Sequence[int], count: CountClosed
    ) -> list[tuple[int, int, InvalidEvent]]:
        """Make events of lists, and count the outcomes; returns those that cannot be counted."""
        lists = self.lists.take(rows)
        attributions = [self._attributions.pop(row, []) for row in rows]
        interactions = [
            [attributed.interaction for attributed in of_list] for of_list in attributions
        ]
        clicked = (interaction.item for of_list in interactions for interaction in of_list)
        numbers = self.items.number(clicked).astype(np.int64)
        list_indices = np.repeat(np.arange(len(lists)), [*map(len, attributions)])
        inside = iter(are_in_lists(lists.items, list_indices, numbers).tolist())
        failures = count(make_events(lists, interactions, self.items, self.rules))
        self.outcomes[0].counted += len(rows) - len(failures)
        for index, (row, of_list) in enumerate(zip(rows, attributions, strict=True)):
            if index in failures:
                self._refuse(0, "invalid", lists, index)
            elif self.listener is not None:
                self.listener.counted(lists, index, [attributed.row for attributed in of_list])
            for attributed in of_list:
                outside = not next(inside)
                if (row, attributed.row) in self._counted_later:
                    self._counted_later.remove((row, attributed.row))
                elif index in failures:
                    self._refuse(attributed.stream, "orphan", *self.interactions.at(attributed.row))
                else:
                    self.outcomes[attributed.stream].counted += 1
                    self.outcomes[attributed.stream].outside += outside
        return [
            (int(lists.logs[index]), int(lists.offsets[index]), failure)
            for index, failure in failures.items()
        ]

    def _closing_time(self, watermark: int) -> int:
        """The time before which lists are complete."""
        return watermark if watermark in (BEFORE_ALL, FOREVER) else watermark - self.rules.window

    def _drop(self, horizon: int) -> None:
        """Drop the records that later ones can neither belong to nor repeat without being late."""
        before = len(self.lists.buckets)
        self.lists.drop(horizon - self.rules.window)
        self.interactions.drop(horizon - self.rules.window - self.rules.lateness)
        if len(self.lists.buckets) < before:
            users = self.lists.by["users"] if self._touches else Index()
            few = [user for user in self._touches if len(users.rows(user)) <= MANY_LISTS]
            for user in few:
                del self._touches[user]
            if self.items.compact((self.lists, self.interactions)):
                self._touches.clear()

    def _refuse_too_many(self) -> None:
        waiting = sum(counts.open for counts in self.outcomes)
        if waiting > self.rules.max_open:
            raise too_many_open("max_open", waiting, self.rules.max_open)
        if self.size > self.rules.max_bytes:
            raise too_many_open("max_bytes", self.size, self.rules.max_bytes)

    def _refuse_orphan(self, attributed: Attributed) -> None:
        records, row = self.interactions.at(attributed.row)
        if self.rules.key == "user_item":
            self.unlisted[attributed.stream] += not self.lists.by["users"].rows(records.keys[row])
        self._refuse(attributed.stream, "orphan", records, row)

    def _refuse(self, stream: int, outcome: Outcome, records: OpenRecords, row: int) -> None:
        counts = self.outcomes[stream]
        setattr(counts, outcome, getattr(counts, outcome) + 1)
        if self.listener is not None:
            self.listener.rejected(outcome, records, row)


def _ignored_mask(content: Decoded | InteractionColumns) -> BoolArray:
    if isinstance(content, InteractionColumns):
        return ~content.counts
    return np.zeros(len(content.indices), dtype=np.bool_)


def _hashes(stream: int, content: InteractionColumns) -> IntArray:
    """A hash of each event id in its stream and join key; 0 without ids."""
    if content.event_ids is None:
        return np.zeros(len(content.keys), dtype=np.int64)
    salt = b"%d" % stream
    pairs = zip(content.keys, content.event_ids, strict=True)
    # With its length, so that no other key and id make the same text.
    texts = (f"{len(key)} {key}{event_id}".encode() for key, event_id in pairs)
    hashes = (blake2b(text, digest_size=8, salt=salt).digest() for text in texts)
    return np.frombuffer(b"".join(hashes), dtype="<i8")
