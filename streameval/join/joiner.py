"""The join itself: depends only on the records, in the order of `logs`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import pairwise, repeat
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, cast

import msgspec
import numpy as np

from streameval.decoding.columns import Decoded
from streameval.decoding.invalid import InvalidEvent
from streameval.engine.clock import NEVER, Int64
from streameval.engine.windows.sections import Section
from streameval.events import Id
from streameval.events.errors import TooManyOpenError
from streameval.join.closed_lists import ClosedLists
from streameval.join.impression_buffer import PREFIX as IMPRESSIONS
from streameval.join.impression_buffer import ImpressionBuffer
from streameval.join.interaction_buffer import PREFIX as INTERACTIONS
from streameval.join.interaction_buffer import Deduplicator, InteractionBuffer, InteractionRecord
from streameval.join.interactions import InteractionColumns
from streameval.join.logs import RecordSlice, times_of
from streameval.join.matching import Index, LastTouchMatcher, RequestMatcher
from streameval.join.open_lists import PLACES
from streameval.join.options import FOREVER, Outcome, OutcomeCounts, Rules
from streameval.statistics.arrays import BoolArray, IntArray

_SEEN: Final = "~join/seen/"

AT_ONCE: Final = 1_024
"""Limit of one step: records of each log, lists that close, interactions that are attributed."""


def runs(slices: Sequence[RecordSlice]) -> Iterator[tuple[int, IntArray]]:
    """The records in join order, as runs: index of a slice, and consecutive rows of it."""
    sizes = [len(part.before) for part in slices]
    if len({part.log for part in slices}) == 1:
        yield from ((number, np.arange(size)) for number, size in enumerate(sizes))
        return
    logs = np.repeat([part.log for part in slices], sizes)
    order = np.lexsort((logs, np.concatenate([part.before for part in slices])))
    numbers = np.repeat(np.arange(len(slices)), sizes)[order]
    rows = np.concatenate([np.arange(size) for size in sizes])[order]
    edges = np.flatnonzero(np.diff(numbers, prepend=-1, append=-1)).tolist()
    for start, stop in pairwise(edges):
        yield int(numbers[start]), rows[start:stop]


def late_masks(slices: Sequence[RecordSlice], lateness: int, watermark: int) -> list[BoolArray]:
    """Masks of late records: behind the clock of their log, or before the watermark."""
    return [
        times_of(part.content) < np.maximum(part.before - lateness, watermark) for part in slices
    ]


def interactions_of(part: RecordSlice, content: InteractionColumns) -> list[InteractionRecord]:
    """The interactions of a slice as records."""
    offsets = part.offsets[content.places].tolist()
    columns = (content.times.tolist(), content.keys, content.items, content.types, content.gains)
    return list(map(InteractionRecord, *columns, repeat(part.log), offsets))


CountClosed: TypeAlias = Callable[[Decoded], Mapping[int, InvalidEvent]]
"""Counts events; returns the rows of those that cannot be counted, and why."""


class RejectedRecord(NamedTuple):
    """A record that is part of no event.

    Attributes:
        time: event time, microseconds since the epoch.
        key: id of the list, or user of the interaction; empty if it has none.
        user: of the list, if lists are joined by user.
        item: of an interaction; None for an impression.
    """

    log: int
    offset: int
    time: int
    key: str
    user: str = ""
    item: Id | None = None
    type: str | None = None


class Trace(Protocol):
    """Follows records through a join."""

    def rejected(self, outcome: Outcome, record: RejectedRecord) -> None:
        """Called with each record that is part of no event."""

    def counted(
        self, shown: ImpressionBuffer, row: int, interactions: Sequence[InteractionRecord]
    ) -> None:
        """Called with each list that became an event, and its interactions."""


class Joiner:
    """Buffers lists and interactions, and makes events of them as the watermark advances.

    An interaction is attributed to its list when the watermark passes it; a list becomes an event
    when the watermark passes the end of its window.

    `streams`: number of the stream of each log; number 0 has the impressions. `patience`: see
    `ClockRule`.

    Attributes:
        watermark: no earlier record is expected, microseconds; NEVER at first.
        outcomes: of the records of each stream.
    """

    def __init__(
        self, rules: Rules, streams: Sequence[int], patience: int, trace: Trace | None = None
    ) -> None:
        self.rules = rules
        self.watermark = NEVER
        self.outcomes = [OutcomeCounts() for _ in range(max(streams) + 1)]
        self._streams = streams
        self._trace = trace
        self.impressions = ImpressionBuffer(rules.bucket, users=rules.keeps_users)
        self.interactions = InteractionBuffer(rules.bucket)
        self._requests = Index()
        self._users = Index() if rules.key == "user_item" else None
        # How far behind the clock a list may come; several logs have no common clock.
        slack = rules.lateness + rules.bucket if streams.count(0) == 1 else FOREVER
        self._matcher = (
            RequestMatcher(self.impressions, self._requests, rules.window)
            if self._users is None
            else LastTouchMatcher(self.impressions, self._users, rules, slack, patience)
        )
        self._attributions: defaultdict[int, list[InteractionRecord]] = defaultdict(list)
        self._counted_later: set[tuple[int, InteractionRecord]] = set()
        self.deduplicators = [Deduplicator(rules.window + rules.lateness) for _ in self.outcomes]

    def add(self, stream: int, slices: Sequence[RecordSlice]) -> None:
        """Add the next records of a stream, from all of its logs."""
        counts = self.outcomes[stream]
        for part in slices:
            counts.records += part.records
            counts.tombstone += part.tombstones
            counts.invalid += len(part.invalid)
            if part.future is not None:
                self._refuse_future(stream, part._replace(content=part.future))
        valid = [part for part in slices if len(part.content.places)]
        if valid:
            self._add_interactions(stream, valid) if stream else self._add_impressions(valid)

    def advance(
        self, watermark: int, newest: int, count: CountClosed
    ) -> Sequence[tuple[int, int, InvalidEvent]]:
        """Advance the watermark, by at most about `AT_ONCE` lists and interactions.

        Call it until `self.watermark` has reached the goal, before records are added.

        Args:
            watermark: the goal; FOREVER if no more records come.
            newest: the largest event time so far.
            count: counts the events of the lists that close, in the order of their time; returns
                the rows of those that it cannot count. Not called without events.

        Returns:
            The lists that could not be counted: number of the log, offset, and why.

        Raises:
            TooManyOpenError: more records wait than the limits allow.
        """
        if watermark <= self.watermark:
            self._refuse_too_many()
            return ()
        before, goal = self.watermark, watermark
        interactions = self.interactions.between(before, goal, AT_ONCE)
        if len(interactions) > AT_ONCE:
            watermark = max(interactions[AT_ONCE].time, interactions[0].time + 1)
        begin, end = self._closing_time(before), self._closing_time(watermark)
        until = self.impressions.moment_after(begin, end, AT_ONCE)
        if until < end:
            watermark = until + self.rules.window
        self.watermark = watermark
        for interaction in interactions:
            if interaction.time < watermark:
                self._attribute(interaction)
        rows = self.impressions.between(self._closing_time(before), self._closing_time(watermark))
        uncountable = self._close(rows, count) if rows else ()
        self._drop(min(watermark, newest))
        if watermark == goal:
            self._refuse_too_many()
        return uncountable

    @property
    def size(self) -> int:
        """Approximate bytes of the records that wait."""
        return self.impressions.size + self.interactions.size

    def lists(self, key: str) -> list[int]:
        """Rows of the lists of a request, or of a user if the join is by user."""
        rows = list(self._requests.rows(key))
        return rows or list(self._users.rows(key) if self._users is not None else ())

    def about(self, key: str, rows: Sequence[int]) -> list[tuple[InteractionRecord, list[int]]]:
        """Interactions that have a key or belong to one of these lists, with all their lists."""
        matched = [
            (interaction, self._matcher.match(interaction))
            for interaction in self.interactions.between(NEVER, FOREVER)
        ]
        return [
            (interaction, rows_of_each)
            for interaction, rows_of_each in matched
            if interaction.key == key or not set(rows_of_each).isdisjoint(rows)
        ]

    def is_counted(self, row: int) -> bool:
        """Whether a list has become an event."""
        return self.impressions.time(row) < self._closing_time(self.watermark)

    def sections(self) -> Iterator[Section]:
        """The buffers and the remembered event ids."""
        yield from self.impressions.sections()
        yield from self.interactions.sections()
        for stream, deduplicator in enumerate(self.deduplicators):
            for section in deduplicator.sections():
                yield section._replace(name=f"{_SEEN}{stream}/{section.name}")

    def state_dict(self) -> dict[str, Any]:
        """The rest of the state, as plain values."""
        return {
            "accounts": [msgspec.to_builtins(outcome) for outcome in self.outcomes],
            "watermark": self.watermark,
        }

    def restore(self, state: Mapping[str, Any], parts: Mapping[str, bytes]) -> None:
        """Replace the content with the output of `state_dict` and `sections`."""
        self.outcomes = msgspec.convert(state["accounts"], list[OutcomeCounts])
        self.watermark = msgspec.convert(state["watermark"], Int64)
        self.impressions.restore(_of(parts, IMPRESSIONS))
        self.interactions.restore(_of(parts, INTERACTIONS))
        for stream, deduplicator in enumerate(self.deduplicators):
            prefix = f"{_SEEN}{stream}/"
            prefixed = _of(parts, prefix)
            sections = {name.removeprefix(prefix): section for name, section in prefixed.items()}
            deduplicator.restore(sections)
        self._rebuild_indexes()

    def _add_impressions(self, slices: Sequence[RecordSlice]) -> None:
        late = late_masks(slices, self.rules.lateness, self.watermark)
        for number, rows in runs(slices):
            part = slices[number]
            lists = cast("Decoded", part.content)
            offsets, late_rows = part.own_offsets, late[number]
            if len(rows) < len(offsets):
                lists, offsets, late_rows = lists.take(rows), offsets[rows], late_rows[rows]
            rows_to_keep = self._rows_to_keep(lists, part.log, offsets, late_rows)
            if rows_to_keep is not None:
                lists, offsets = lists.take(rows_to_keep), offsets[rows_to_keep]
            if len(offsets):
                self._keep(lists, part.log, offsets)

    def _refuse_future(self, stream: int, part: RecordSlice) -> None:
        """Refuse records from the future."""
        if stream:
            for interaction in interactions_of(part, cast("InteractionColumns", part.content)):
                self._refuse(stream, "future", interaction)
            return
        lists, offsets = cast("Decoded", part.content), part.own_offsets
        for row in range(len(offsets)):
            self._refuse_list("future", lists, row, part.log, int(offsets[row]))

    def _rows_to_keep(
        self, lists: Decoded, log: int, offsets: IntArray, late: BoolArray
    ) -> IntArray | None:
        """Rows of the lists to keep, or None for all; refuses late lists and duplicates."""
        ids = lists.event_ids
        if not late.any() and self._all_new(ids):
            return None
        fresh: dict[str, list[int]] = {}
        kept = []
        for row, time in enumerate(times_of(lists).tolist()):
            request = None if ids is None else ids[row]
            outcome: Outcome | None = "late" if late[row] else None
            if request is not None and outcome is None:
                earlier = [
                    self.impressions.time(row_number) for row_number in self._requests.rows(request)
                ]
                before = fresh.setdefault(request, [])
                if self._is_duplicate([*earlier, *before], time):
                    outcome = "duplicate"
                else:
                    before.append(time)
            if outcome is None:
                kept.append(row)
            else:
                self._refuse_list(outcome, lists, row, log, int(offsets[row]))
        return np.array(kept, dtype=np.int64)

    def _all_new(self, ids: Sequence[str] | None) -> bool:
        """Whether all ids are new and distinct: a quick check of the usual case."""
        return ids is None or (len(set(ids)) == len(ids) and self._requests.has_none(ids))

    def _keep(self, lists: Decoded, log: int, offsets: IntArray) -> None:
        rows = self.impressions.add(lists, log, offsets)
        if lists.event_ids is not None:
            self._requests.extend(lists.event_ids, rows)
        users = lists.batch.users
        if self._users is not None and users is not None:
            self._users.extend([str(user or "") for user in users], rows)

    def _is_duplicate(self, earlier: Sequence[int], time: int) -> bool:
        """Whether the window of a list overlaps with that of a known list of the same id."""
        return any(abs(earlier_time - time) <= self.rules.window for earlier_time in earlier)

    def _add_interactions(self, stream: int, slices: Sequence[RecordSlice]) -> None:
        late = [
            late_mask.tolist()
            for late_mask in late_masks(slices, self.rules.lateness, self.watermark)
        ]
        columns = [cast("InteractionColumns", part.content) for part in slices]
        counts = [column.counts.tolist() for column in columns]
        order = [(n, row) for n, rows in runs(slices) for row in rows.tolist()]
        candidates = [(n, row) for n, row in order if not late[n][row] and counts[n][row]]
        duplicates = self.deduplicators[stream].duplicates(columns, candidates)
        interactions = [interactions_of(*pair) for pair in zip(slices, columns, strict=True)]
        if len(candidates) == len(order) and not duplicates:
            self.interactions.extend(interactions[n][row] for n, row in order)
            return
        fresh = set(candidates) - duplicates
        for number, row in order:
            interaction = interactions[number][row]
            if (number, row) in fresh:
                self.interactions.extend([interaction])
            elif late[number][row]:
                self._refuse(stream, "late", interaction)
            elif not counts[number][row]:
                self._refuse(stream, "ignored", interaction)
            else:
                self._refuse(stream, "duplicate", interaction)

    def _attribute(self, interaction: InteractionRecord) -> None:
        rows = self._matcher.match(interaction)
        if rows:
            self._wait(interaction, rows)
        else:
            self._refuse(self._streams[interaction.log], "orphan", interaction)

    def _wait(self, interaction: InteractionRecord, rows: Sequence[int]) -> None:
        """Keep an interaction until its lists are counted; it counts with the last of them."""
        for row in rows:
            self._attributions[row].append(interaction)
        for row in rows[:-1]:
            self._counted_later.add((row, interaction))

    def _close(
        self, rows: Sequence[int], count: CountClosed
    ) -> list[tuple[int, int, InvalidEvent]]:
        """Make events of lists, and count the outcomes; returns those that cannot be counted."""
        attributed = [self._attributions.pop(row, ()) for row in rows]
        lists = ClosedLists(self.impressions, rows, attributed)
        inside = lists.inside()
        failures = count(lists.events(self.rules.combine))
        self._count_closed(rows, attributed, inside, failures)
        return [
            (*self.impressions.origin(rows[place]), failure) for place, failure in failures.items()
        ]

    def _count_closed(
        self,
        rows: Sequence[int],
        attributed: Sequence[Sequence[InteractionRecord]],
        inside: Sequence[bool],
        failures: Collection[int],
    ) -> None:
        """Count the outcomes of lists, and of interactions with the last of their lists."""
        self.outcomes[0].counted += len(rows) - len(failures)
        is_inside = iter(inside)
        for place, (row, of_list) in enumerate(zip(rows, attributed, strict=True)):
            if place in failures:
                self._refuse_closed(row)
            elif self._trace is not None:
                self._trace.counted(self.impressions, row, of_list)
            for interaction in of_list:
                outside = not next(is_inside)
                if (row, interaction) in self._counted_later:
                    self._counted_later.remove((row, interaction))
                elif place in failures:
                    self._refuse(self._streams[interaction.log], "orphan", interaction)
                else:
                    counts = self.outcomes[self._streams[interaction.log]]
                    counts.counted += 1
                    counts.outside += outside

    def _refuse_closed(self, row: int) -> None:
        """Refuse a list that cannot be counted."""
        self._count(0, "invalid")
        if self._trace is not None:
            log, offset = self.impressions.origin(row)
            lists = self.impressions
            names = lists.request(row), lists.user(row)
            record = RejectedRecord(log, offset, lists.time(row), *names)
            self._trace.rejected("invalid", record)

    def _closing_time(self, watermark: int) -> int:
        """The time before which lists are complete."""
        return watermark if watermark in (NEVER, FOREVER) else watermark - self.rules.window

    def _drop(self, horizon: int) -> None:
        before = horizon - self.rules.window
        for number, bucket in self.impressions.drop(before):
            self._requests.forget(bucket.requests, number << PLACES)
            if self._users is not None:
                self._users.forget(bucket.users, number << PLACES)
        self.interactions.drop(before)
        for deduplicator in self.deduplicators:
            deduplicator.forget(horizon)

    def _refuse_too_many(self) -> None:
        waiting = sum(counts.open for counts in self.outcomes)
        if waiting > self.rules.max_open:
            raise TooManyOpenError("max_open", waiting, self.rules.max_open)
        if self.size > self.rules.max_bytes:
            raise TooManyOpenError("max_bytes", self.size, self.rules.max_bytes)

    def _refuse(self, stream: int, outcome: Outcome, refused: InteractionRecord) -> None:
        self._count(stream, outcome)
        if self._trace is not None:
            record = RejectedRecord(
                refused.log,
                refused.offset,
                refused.time,
                refused.key,
                item=refused.item,
                type=refused.type,
            )
            self._trace.rejected(outcome, record)

    def _refuse_list(
        self, outcome: Outcome, lists: Decoded, row: int, log: int, offset: int
    ) -> None:
        self._count(0, outcome)
        if self._trace is not None:
            request = None if lists.event_ids is None else lists.event_ids[row]
            users, times = lists.batch.users, times_of(lists)
            user = str((users[row] if users is not None else None) or "")
            record = RejectedRecord(log, offset, int(times[row]), request or "", user)
            self._trace.rejected(outcome, record)

    def _count(self, stream: int, outcome: Outcome) -> None:
        counts = self.outcomes[stream]
        setattr(counts, outcome, getattr(counts, outcome) + 1)

    def _rebuild_indexes(self) -> None:
        """Rebuild indexes and attributions from the buffers."""
        self._requests.clear()
        if self._users is not None:
            self._users.clear()
        for number, bucket in sorted(self.impressions.buckets.items()):
            for place, request in enumerate(bucket.requests):
                self._requests.add(request, number << PLACES | place)
            for place, user in enumerate(bucket.users):
                if self._users is not None:
                    self._users.add(user, number << PLACES | place)
        closed = self._closing_time(self.watermark)
        self._attributions.clear()
        self._counted_later.clear()
        for interaction in self.interactions.between(NEVER, self.watermark):
            rows = self._matcher.match(interaction)
            self._wait(interaction, [row for row in rows if self.impressions.time(row) >= closed])


def _of(parts: Mapping[str, bytes], prefix: str) -> dict[str, bytes]:
    return {name: part for name, part in parts.items() if name.startswith(prefix)}
