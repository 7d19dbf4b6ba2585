"""The join itself: depends only on the records, in the order of `logs`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import chain, islice
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import msgspec
import numpy as np

from streameval.decoding.columns import Decoded
from streameval.decoding.invalid import InvalidEvent
from streameval.engine.clock import NEVER, Int64
from streameval.engine.windows.sections import Section
from streameval.events import Interaction
from streameval.events.ragged import Ragged
from streameval.join.closed_lists import are_inside, closed_events
from streameval.join.interactions import InteractionColumns
from streameval.join.kernel import Shown, Wanted, last_touches
from streameval.join.logs import RecordSlice
from streameval.join.open_records import (
    ItemNumbers,
    OpenInteractions,
    OpenLists,
    OpenRecords,
    OpenTable,
    as_open_lists,
    too_many_open,
)
from streameval.join.options import FOREVER, Outcome, OutcomeCounts, Rules
from streameval.statistics.arrays import BoolArray, IntArray
from streameval.statistics.vocabulary import Codes

AT_ONCE: Final = 1_024
"""Limit of one step: records of each log, lists that close, interactions that are attributed."""

CountClosed: TypeAlias = Callable[[Decoded], Mapping[int, InvalidEvent]]
"""Counts events; returns the rows of those that cannot be counted, and why."""


class Listener(Protocol):
    """Follows records through a join."""

    def rejected(self, outcome: Outcome, records: OpenRecords, row: int) -> None:
        """Called with each record that is part of no event."""

    def counted(self, lists: OpenLists, row: int, interactions: Sequence[int]) -> None:
        """Called with each list that became an event, and the rows of its interactions."""


class Attributed(NamedTuple):
    """An interaction that belongs to a list: its row, the number of its stream, and itself."""

    row: int
    stream: int
    interaction: Interaction


class Joiner:
    """Keeps open lists and interactions, and makes events of them as the watermark advances.

    An interaction is attributed to its list when the watermark passes it; a list becomes an event
    when the watermark passes the end of its window.

    `streams`: number of the stream of each log; number 0 has the impressions.

    Attributes:
        watermark: no earlier record is expected, microseconds; NEVER at first.
        outcomes: of the records of each stream.
        listener: follows the records; None for nobody.
    """

    def __init__(self, rules: Rules, streams: Sequence[int]) -> None:
        self.rules = rules
        self.watermark = NEVER
        self.outcomes = [OutcomeCounts() for _ in range(max(streams) + 1)]
        self.listener: Listener | None = None
        self._streams = streams
        self.items = ItemNumbers()
        by_user = rules.key == "user_item"
        keys = ("requests", "users") if by_user else ("requests",)
        self.lists: OpenTable[OpenLists] = OpenTable(
            "~join/shown/", OpenLists, rules.bucket, self.items, keys
        )
        self.interactions: OpenTable[OpenInteractions] = OpenTable(
            "~join/reported/", OpenInteractions, rules.bucket, self.items, ("ids",)
        )
        self._match = self._last_touches if by_user else self._named_lists
        self._attributions: defaultdict[int, list[Attributed]] = defaultdict(list)
        # Rows of a list and an interaction that counts with a later list.
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
        slices = [part for part in slices if len(part.content.indices)]
        if not slices:
            return
        opened: list[Any] = [self._open(stream, part) for part in slices]
        records: Any = opened[0].joined(*opened[1:])
        before = np.concatenate([part.before for part in slices])
        ignored = np.concatenate([_ignored(part.content) for part in slices])
        if len(slices) > 1:
            # In join order: by the clock of their log, then by log.
            order = np.lexsort((records.logs, before))
            records, before, ignored = records.take(order), before[order], ignored[order]
        late = records.times < np.maximum(before - self.rules.lateness, self.watermark)
        refused: dict[int, Outcome] = dict.fromkeys(np.flatnonzero(late).tolist(), "late")
        refused |= dict.fromkeys(np.flatnonzero(ignored & ~late).tolist(), "ignored")
        refused |= dict.fromkeys(self._duplicates(records, refused), "duplicate")
        for row in sorted(refused):
            self._refuse(stream, refused[row], records, row)
        if refused:
            records = records.take(np.delete(np.arange(len(records)), [*refused]))
        if isinstance(records, OpenLists):
            self.lists.add(records)
        else:
            self.interactions.add(records)

    def advance(
        self, watermark: int, newest: int, count: CountClosed
    ) -> Sequence[tuple[int, int, InvalidEvent]]:
        """Advance the watermark, by at most about `AT_ONCE` lists and interactions.

        To be called until the watermark is reached; it depends on the records alone if records are
        added only then.

        Args:
            watermark: the goal; FOREVER if no more records come.
            newest: the largest event time so far.
            count: counts the events of the lists that close, in the order of their time; returns
                the rows of those that it cannot count. Not called without events.

        Returns:
            The lists that could not be counted: number of the log, offset, and why.

        Raises:
            RefusedRecordsError: more records wait than the limits allow.
        """
        if watermark <= self.watermark:
            self._refuse_too_many()
            return ()
        before, goal = self.watermark, watermark
        watermark = self.interactions.moment_after(before, goal, AT_ONCE)
        begin, end = self._closing_time(before), self._closing_time(watermark)
        until = self.lists.moment_after(begin, end, AT_ONCE)
        if until < end:
            watermark = until + self.rules.window
        self.watermark = watermark
        for found, lists in self.matched(self.interactions.between(before, watermark)):
            if lists:
                self._wait(found, lists)
            else:
                self._refuse(found.stream, "orphan", *self.interactions.at(found.row))
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

    def open_lists(self, key: str) -> list[int]:
        """Rows of the open lists of a request, or of a user if the join is by user."""
        rows = chain.from_iterable(index.rows(key) for index in self.lists.by.values())
        closed = self._closing_time(self.watermark)
        return [row for row in dict.fromkeys(rows) if self.lists.time(row) >= closed]

    def matched(self, rows: Sequence[int]) -> Iterator[tuple[Attributed, list[int]]]:
        """Interactions, and the rows of the lists that each belongs to."""
        if not rows:
            return
        found = self.interactions.take(rows)
        items = self.items.named(found.items).ids()
        streams = [self._streams[log] for log in found.logs.tolist()]
        interactions = map(Interaction, items, found.gains, found.types)
        yield from zip(
            map(Attributed, rows, streams, interactions), self._match(found), strict=True
        )

    def _named_lists(self, interactions: OpenInteractions) -> Iterator[list[int]]:
        """The list with the id in the window before each interaction; there is at most one."""
        named = self.lists.by["requests"]
        for key, time in zip(interactions.keys, interactions.times.tolist(), strict=True):
            earliest = time - self.rules.window
            lists = (row for row in named.rows(key) if earliest <= self.lists.time(row) <= time)
            yield [*islice(lists, 1)]

    def _last_touches(self, interactions: OpenInteractions) -> list[list[int]]:
        """The latest list with the item in the window before, for each combination of `per`."""
        users: Codes[str] = Codes()
        wanted = users.codes(interactions.keys)
        of_user = [self.lists.by["users"].rows(user) for user in users.names]
        rows = np.fromiter(chain.from_iterable(of_user), np.int64)
        order = np.argsort(rows)
        rows, owners = rows[order], np.repeat(np.arange(len(of_user)), [*map(len, of_user)])[order]
        times, items = self.lists.shown(rows)
        groups = np.zeros(rows.size, np.int64)
        if self.rules.per:
            labels = [self._labels(row) for row in rows.tolist()]
            number = {group: number for number, group in enumerate(sorted(set(labels)))}
            groups = np.fromiter(map(number.__getitem__, labels), np.int64, rows.size)
        matched, indices = last_touches(
            Shown(owners, items, times, groups),
            Wanted(wanted, interactions.items.values.astype(np.int64), interactions.times),
            self.rules.window,
            lambda tied: [self._content(row) for row in rows[tied].tolist()],
        )
        touched: list[list[int]] = [[] for _ in interactions.keys]
        order = np.lexsort((groups[indices], times[indices]))
        for index, row in zip(matched[order].tolist(), rows[indices[order]].tolist(), strict=True):
            touched[index].append(row)
        return touched

    def _labels(self, row: int) -> tuple[str, ...]:
        """The labels of a list by which interactions are attributed separately."""
        lists, index = self.lists.at(row)
        return tuple(lists.dimensions[index][label] for label in self.rules.per)

    def _content(self, row: int) -> str:
        """What orders lists of equal times; their origin, too, as nothing else may differ."""
        lists, index = self.lists.at(row)
        origin = f"{lists.logs[index]:09d}/{lists.offsets[index]:019d}"
        return f"{lists.requests[index]}\0{origin}"

    def sections(self) -> Iterator[Section]:
        """The open records."""
        yield from self.lists.sections()
        yield from self.interactions.sections()

    def state_dict(self) -> dict[str, Any]:
        """The rest of the state, as plain values."""
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
        # The interactions of open lists are attributed again.
        closed = self._closing_time(self.watermark)
        for found, rows in self.matched(self.interactions.between(NEVER, self.watermark)):
            self._wait(found, [row for row in rows if self.lists.time(row) >= closed])

    def _open(self, stream: int, part: RecordSlice) -> OpenRecords:
        """The records of a slice, with the numbers of their items."""
        content = part.content
        offsets = part.offsets[content.indices]
        if isinstance(content, Decoded):
            users = self.rules.keeps_users
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

    def _duplicates(self, records: OpenRecords, refused: Collection[int]) -> list[int]:
        """Rows whose id was seen before, in any log of the stream, and not long before or after.

        Windows of lists of one id must not overlap; an interaction counts once within window and
        lateness. No clock decides that: those of other logs say nothing about the age of a record.
        """
        if isinstance(records, OpenLists):
            table: OpenTable[Any] = self.lists
            ids: Sequence[Any] = records.requests
            index, span = table.by["requests"], self.rules.window
        else:
            table, ids = self.interactions, records.ids.tolist()
            index, span = table.by["ids"], self.rules.window + self.rules.lateness
        if index.are_new(ids):
            return []
        times, fresh, duplicates = records.times.tolist(), defaultdict[Any, list[int]](list), []
        for row, key in enumerate(ids):
            if key and row not in refused:
                earlier = chain(map(table.time, index.rows(key)), fresh[key])
                if any(abs(time - times[row]) <= span for time in earlier):
                    duplicates.append(row)
                else:
                    fresh[key].append(times[row])
        return duplicates

    def _wait(self, found: Attributed, lists: Sequence[int]) -> None:
        """Keep an interaction until its lists are counted; it counts with the last of them."""
        for row in lists:
            self._attributions[row].append(found)
        self._counted_later.update((row, found.row) for row in lists[:-1])

    def _close(
        self, rows: Sequence[int], count: CountClosed
    ) -> list[tuple[int, int, InvalidEvent]]:
        """Make events of lists, and count the outcomes; returns those that cannot be counted."""
        lists = self.lists.take(rows)
        attributed = [self._attributions.pop(row, []) for row in rows]
        interactions = [[found.interaction for found in of_list] for of_list in attributed]
        inside = iter(are_inside(lists, interactions, self.items))
        failures = count(closed_events(lists, interactions, self.items, self.rules))
        self.outcomes[0].counted += len(rows) - len(failures)
        for index, (row, of_list) in enumerate(zip(rows, attributed, strict=True)):
            if index in failures:
                self._refuse(0, "invalid", lists, index)
            elif self.listener is not None:
                self.listener.counted(lists, index, [found.row for found in of_list])
            for found in of_list:
                outside = not next(inside)
                if (row, found.row) in self._counted_later:
                    self._counted_later.remove((row, found.row))
                elif index in failures:
                    self._refuse(found.stream, "orphan", *self.interactions.at(found.row))
                else:
                    self.outcomes[found.stream].counted += 1
                    self.outcomes[found.stream].outside += outside
        return [
            (int(lists.logs[index]), int(lists.offsets[index]), failure)
            for index, failure in failures.items()
        ]

    def _closing_time(self, watermark: int) -> int:
        """The time before which lists are complete."""
        return watermark if watermark in (NEVER, FOREVER) else watermark - self.rules.window

    def _drop(self, horizon: int) -> None:
        """Forget what no later record can belong to or repeat, as it would be late."""
        before = len(self.lists.buckets)
        self.lists.drop(horizon - self.rules.window)
        self.interactions.drop(horizon - self.rules.window - self.rules.lateness)
        if len(self.lists.buckets) < before:
            self.items.compact((self.lists, self.interactions))

    def _refuse_too_many(self) -> None:
        waiting = sum(counts.open for counts in self.outcomes)
        if waiting > self.rules.max_open:
            raise too_many_open("max_open", waiting, self.rules.max_open)
        if self.size > self.rules.max_bytes:
            raise too_many_open("max_bytes", self.size, self.rules.max_bytes)

    def _refuse(self, stream: int, outcome: Outcome, records: OpenRecords, row: int) -> None:
        counts = self.outcomes[stream]
        setattr(counts, outcome, getattr(counts, outcome) + 1)
        if self.listener is not None:
            self.listener.rejected(outcome, records, row)


def _ignored(content: Decoded | InteractionColumns) -> BoolArray:
    if isinstance(content, InteractionColumns):
        return ~content.counts
    return np.zeros(len(content.indices), dtype=np.bool_)


def _hashes(stream: int, content: InteractionColumns) -> IntArray:
    """A hash of each event id in its stream, which takes less memory; 0 without ids."""
    if content.event_ids is None:
        return np.zeros(len(content.keys), dtype=np.int64)
    salt = b"%d" % stream
    hashes = (blake2b(text.encode(), digest_size=8, salt=salt) for text in content.event_ids)
    return np.frombuffer(b"".join(hashed.digest() for hashed in hashes), dtype="<i8")
