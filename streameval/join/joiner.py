"""The join itself: a pure function of records in the order that `logs` gives them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import pairwise, repeat
from typing import Any, Final, NamedTuple, Protocol, cast

import msgspec
import numpy as np

from streameval.decoding.columns import Decoded
from streameval.engine.clock import NEVER
from streameval.errors import TooManyOpenError
from streameval.events import Id
from streameval.join.bucket import PLACES
from streameval.join.closing import Closing
from streameval.join.finding import ByRequest, ByUserItem, Index
from streameval.join.impressions import Impressions
from streameval.join.interactions import InteractionColumns
from streameval.join.logs import RecordSlice
from streameval.join.reported import PREFIX as REPORTED
from streameval.join.reported import Deduplicator, Reported, ReportedShelf
from streameval.join.rules import FOREVER, Account, Outcome, Rules
from streameval.join.shown import PREFIX as SHOWN
from streameval.join.shown import Shown
from streameval.statistics.arrays import BoolArray, IntArray
from streameval.windows.sections import Section

_SEEN: Final = "~join/seen/"

AT_ONCE: Final = 1_024
"""Records of each log that are joined at once, and lists and interactions that are complete."""


def runs(slices: Sequence[RecordSlice]) -> Iterator[tuple[int, IntArray]]:
    """The records in the order of the join: a slice, and rows of it that follow each other."""
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


def late_in(slices: Sequence[RecordSlice], lateness: int, watermark: int) -> list[BoolArray]:
    """Which are late: by the clock of their own log; and never before what is counted already."""
    return [part.content.times < np.maximum(part.before - lateness, watermark) for part in slices]


def reported_in(part: RecordSlice, found: InteractionColumns) -> list[Reported]:
    """The interactions of a slice."""
    offsets = part.offsets[found.places].tolist()
    columns = (found.times.tolist(), found.keys, found.items, found.types, found.gains)
    return list(map(Reported, *columns, repeat(part.log), offsets))


class RejectedRecord(NamedTuple):
    """A record that became part of no event.

    Attributes:
        time: when it happened, microseconds since the epoch.
        key: id of its list, or the user of an interaction; empty where it has none.
        user: who saw the list, where lists are joined by user.
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
        """A record ended without becoming part of an event."""

    def counted(self, shown: Shown, row: int, interactions: Sequence[Reported]) -> None:
        """A list became an event with these interactions."""


class Joiner:
    """Keeps lists and interactions until the watermark passes, and gives events.

    No record comes before the watermark any more. An interaction is attributed to its list when
    the watermark passes the interaction; a list becomes an event when it passes the whole window.

    `streams`: number of the stream of each log; number 0 has the impressions. `recent`: how many
    events of a log decide on its clock.

    Attributes:
        watermark: no record before it comes any more, microseconds; NEVER at first.
        accounts: outcomes of the records of each stream.
    """

    def __init__(
        self, rules: Rules, streams: Sequence[int], recent: int, trace: Trace | None = None
    ) -> None:
        self.rules = rules
        self.watermark = NEVER
        self.accounts = [Account() for _ in range(max(streams) + 1)]
        self._streams = streams
        self._trace = trace
        self.shown = Shown(rules.bucket, users=rules.keeps_users)
        self.reported = ReportedShelf(rules.bucket)
        self._requests = Index()
        self._users = Index() if rules.key == "user_item" else None
        # How much older a list may be than one that came before it; of several logs, by any time.
        slack = rules.lateness + rules.bucket if streams.count(0) == 1 else FOREVER
        self._finder = (
            ByRequest(self.shown, self._requests, rules.window)
            if self._users is None
            else ByUserItem(self.shown, self._users, rules, slack, recent)
        )
        self._found: defaultdict[int, list[Reported]] = defaultdict(list)
        self._ending: Sequence[int] = ()
        self._later: set[tuple[int, Reported]] = set()
        self._deduplicators = [Deduplicator(rules.window + rules.lateness) for _ in self.accounts]

    def add(self, stream: int, slices: Sequence[RecordSlice]) -> None:
        """Take the next records of a stream, from all of its logs."""
        account = self.accounts[stream]
        for part in slices:
            account.records += part.records
            account.tombstone += part.tombstones
            account.invalid += len(part.invalid)
            if part.future is not None:
                self._leave_out(stream, part._replace(content=part.future))
        found = [part for part in slices if len(part.content.places)]
        if found:
            self._report(stream, found) if stream else self._show(found)

    def advance(self, watermark: int, newest: int, sink: Callable[[Decoded], object]) -> None:
        """Move the watermark forward, by about a thousand lists and interactions at most.

        Nothing may be added before it has come to where it should.

        Args:
            watermark: no record before it comes any more; FOREVER if no record comes at all.
            newest: the largest event time so far.
            sink: handed the events that are complete by it, in the order of their time; it is
                not called where none is.

        Raises:
            TooManyOpenError: more records wait than the limits allow.
        """
        if watermark <= self.watermark:
            self._refuse_too_many()
            return
        before, goal = self.watermark, watermark
        found = self.reported.between(before, goal, AT_ONCE)
        if len(found) > AT_ONCE:
            watermark = max(found[AT_ONCE].time, found[0].time + 1)
        begin, end = self._closed(before), self._closed(watermark)
        closed = self.shown.moment_after(begin, end, AT_ONCE)
        if closed < end:
            watermark = closed + self.rules.window
        self.watermark = watermark
        for reported in found:
            if reported.time < watermark:
                self._attribute(reported)
        self._ending = rows = self.shown.between(self._closed(before), self._closed(watermark))
        if rows:
            attributed = [self._found.pop(row, ()) for row in rows]
            closing = Closing(self.shown, rows, attributed)
            self._account(rows, attributed, closing.within())
            sink(closing.events(self.rules.combine))
        self._drop(min(watermark, newest))
        if watermark == goal:
            self._refuse_too_many()

    def uncountable(self, sink: Callable[[Decoded], object]) -> tuple[int, int] | None:
        """Log and offset of the first list that fails alone as it failed in the last `advance`.

        None where each alone is counted. `sink` forgets all that it was handed before.
        """
        found = self._attributed(self._ending)
        for row in self._ending:
            try:
                closing = Closing(self.shown, [row], [found.get(row, ())])
                sink(closing.events(self.rules.combine))
            except Exception:  # noqa: BLE001  whatever the first attempt raised
                return self.shown.origin(row)
        return None

    def remove(self, log: int, offset: int) -> bool:
        """Forget the list of a record that waits, as if its log had a gap there.

        An interaction that was attributed to it, and to no other list that is still kept, is an
        orphan. Returns whether the list waited.
        """
        row = self.shown.row_of(log, offset)
        if row is None or self.is_counted(row):
            return False
        for reported in self.reported.between(NEVER, self.watermark):
            rows = self._finder.find(reported)
            if rows == [row]:
                self._refuse(self._streams[reported.log], "orphan", reported)
            elif [row] == rows[-1:] and all(map(self.is_counted, rows[:-1])):
                self.accounts[self._streams[reported.log]].counted += 1
        self.accounts[0].records -= 1
        self.shown.remove(row)
        self._index()
        return True

    @property
    def size(self) -> int:
        """Approximate bytes of the records that wait."""
        return self.shown.size + self.reported.size

    def lists(self, key: str) -> list[int]:
        """Rows of the lists of a request, or of a user where lists are found by user."""
        rows = list(self._requests.rows(key))
        return rows or list(self._users.rows(key) if self._users is not None else ())

    def about(self, key: str, rows: Sequence[int]) -> list[tuple[Reported, list[int]]]:
        """Interactions with a key, or with these lists; each with the lists that it belongs to."""
        found = [(each, self._finder.find(each)) for each in self.reported.between(NEVER, FOREVER)]
        return [
            (each, own) for each, own in found if each.key == key or not set(own).isdisjoint(rows)
        ]

    def is_counted(self, row: int) -> bool:
        """Whether a list is an event already."""
        return self.shown.time(row) < self._closed(self.watermark)

    def sections(self) -> Iterator[Section]:
        """The records that wait."""
        yield from self.shown.sections()
        yield from self.reported.sections()
        for stream, deduplicator in enumerate(self._deduplicators):
            for section in deduplicator.sections():
                yield section._replace(name=f"{_SEEN}{stream}/{section.name}")

    def state_dict(self) -> dict[str, Any]:
        """The rest of the state, as plain values."""
        return {
            "accounts": [msgspec.to_builtins(each) for each in self.accounts],
            "newest": [deduplicator.newest for deduplicator in self._deduplicators],
            "watermark": self.watermark,
        }

    def restore(self, state: Mapping[str, Any], parts: Mapping[str, bytes]) -> None:
        """Replace the content with the output of `state_dict` and `sections`."""
        self.accounts = msgspec.convert(state["accounts"], list[Account])
        self.watermark = int(state["watermark"])
        newest = msgspec.convert(state["newest"], list[int | None])
        self.shown.restore(_of(parts, SHOWN))
        self.reported.restore(_of(parts, REPORTED))
        for stream, deduplicator in enumerate(self._deduplicators):
            prefix = f"{_SEEN}{stream}/"
            own = _of(parts, prefix)
            held = {name.removeprefix(prefix): each for name, each in own.items()}
            deduplicator.restore(held, newest[stream])
        self._index()

    def _show(self, slices: Sequence[RecordSlice]) -> None:
        late = late_in(slices, self.rules.lateness, self.watermark)
        for number, rows in runs(slices):
            part = slices[number]
            lists = cast("Impressions", part.content)
            own, lateness = part.own_offsets, late[number]
            if len(rows) < len(own):
                lists, own, lateness = lists.take(rows), own[rows], lateness[rows]
            kept = self._novel(lists, part.log, own, lateness)
            if kept is not None:
                lists, own = lists.take(kept), own[kept]
            if len(own):
                self._keep(lists, part.log, own)

    def _leave_out(self, stream: int, part: RecordSlice) -> None:
        """End records from the future."""
        if stream:
            for each in reported_in(part, cast("InteractionColumns", part.content)):
                self._refuse(stream, "future", each)
            return
        lists, offsets = cast("Impressions", part.content), part.own_offsets
        for row in range(len(offsets)):
            self._refuse_list("future", lists, row, part.log, int(offsets[row]))

    def _novel(
        self, lists: Impressions, log: int, offsets: IntArray, late: BoolArray
    ) -> IntArray | None:
        """Rows of those lists that are in time and new, or None where all are; ends the others."""
        ids = lists.event_ids
        if not late.any() and self._all_new(ids):
            return None
        fresh: dict[str, list[int]] = {}
        kept = []
        for row, time in enumerate(lists.times.tolist()):
            request = None if ids is None else ids[row]
            outcome: Outcome | None = "late" if late[row] else None
            if request is not None and outcome is None:
                known = [self.shown.time(each) for each in self._requests.rows(request)]
                before = fresh.setdefault(request, [])
                if self._again([*known, *before], time):
                    outcome = "duplicate"
                else:
                    before.append(time)
            if outcome is None:
                kept.append(row)
            else:
                self._refuse_list(outcome, lists, row, log, int(offsets[row]))
        return np.array(kept, dtype=np.int64)

    def _all_new(self, ids: Sequence[str] | None) -> bool:
        """Whether all ids are new and distinct: the usual case, and quick to check."""
        return ids is None or (len(set(ids)) == len(ids) and self._requests.has_none(ids))

    def _keep(self, lists: Impressions, log: int, offsets: IntArray) -> None:
        rows = self.shown.add(lists, log, offsets)
        if lists.event_ids is not None:
            self._requests.extend(lists.event_ids, rows)
        if self._users is not None and lists.users is not None:
            self._users.extend([user or "" for user in lists.users], rows)

    def _again(self, known: Sequence[int], time: int) -> bool:
        """Lists of one id are one list, unless their windows are apart."""
        return any(abs(each - time) <= self.rules.window for each in known)

    def _report(self, stream: int, slices: Sequence[RecordSlice]) -> None:
        late = [each.tolist() for each in late_in(slices, self.rules.lateness, self.watermark)]
        found = [cast("InteractionColumns", part.content) for part in slices]
        counts = [each.counts.tolist() for each in found]
        turns = [(n, row) for n, rows in runs(slices) for row in rows.tolist()]
        asked = [(n, row) for n, row in turns if not late[n][row] and counts[n][row]]
        again = self._deduplicators[stream].duplicates(found, asked)
        reported = [reported_in(*each) for each in zip(slices, found, strict=True)]
        if len(asked) == len(turns) and not again:
            self.reported.extend(reported[n][row] for n, row in turns)
            return
        fresh = set(asked) - again
        for number, row in turns:
            each = reported[number][row]
            if (number, row) in fresh:
                self.reported.extend([each])
            elif late[number][row]:
                self._refuse(stream, "late", each)
            elif not counts[number][row]:
                self._refuse(stream, "ignored", each)
            else:
                self._refuse(stream, "duplicate", each)

    def _attribute(self, reported: Reported) -> None:
        rows = self._finder.find(reported)
        if rows:
            self._wait(reported, rows)
        else:
            self._refuse(self._streams[reported.log], "orphan", reported)

    def _wait(self, reported: Reported, rows: Sequence[int]) -> None:
        """Keep an interaction until its lists are counted: it is with the last of them."""
        for row in rows:
            self._found[row].append(reported)
        for row in rows[:-1]:
            self._later.add((row, reported))

    def _account(
        self, rows: Sequence[int], attributed: Sequence[Sequence[Reported]], within: Sequence[bool]
    ) -> None:
        """Note that lists are counted, with interactions; each of those with its last list."""
        self.accounts[0].counted += len(rows)
        pairs = [(row, each) for row, own in zip(rows, attributed, strict=True) for each in own]
        for pair, inside in zip(pairs, within, strict=True):
            if pair in self._later:
                self._later.remove(pair)
                continue
            account = self.accounts[self._streams[pair[1].log]]
            account.counted += 1
            account.outside += not inside
        if self._trace is not None:
            for row, own in zip(rows, attributed, strict=True):
                self._trace.counted(self.shown, row, own)

    def _closed(self, watermark: int) -> int:
        """Lists shown before it are complete."""
        return watermark if watermark in (NEVER, FOREVER) else watermark - self.rules.window

    def _drop(self, horizon: int) -> None:
        before = horizon - self.rules.window
        for number, bucket in self.shown.drop(before):
            self._requests.forget(bucket.requests, number << PLACES)
            if self._users is not None:
                self._users.forget(bucket.users, number << PLACES)
        self.reported.drop(before)

    def _refuse_too_many(self) -> None:
        waiting = sum(account.open for account in self.accounts)
        if waiting > self.rules.max_open:
            raise TooManyOpenError("max_open", waiting, self.rules.max_open)
        if self.size > self.rules.max_bytes:
            raise TooManyOpenError("max_bytes", self.size, self.rules.max_bytes)

    def _refuse(self, stream: int, outcome: Outcome, each: Reported) -> None:
        self._end(stream, outcome)
        if self._trace is not None:
            record = RejectedRecord(
                each.log, each.offset, each.time, each.key, item=each.item, type=each.type
            )
            self._trace.rejected(outcome, record)

    def _refuse_list(
        self, outcome: Outcome, lists: Impressions, row: int, log: int, offset: int
    ) -> None:
        self._end(0, outcome)
        if self._trace is not None:
            request = None if lists.event_ids is None else lists.event_ids[row]
            user = None if lists.users is None else lists.users[row]
            time = int(lists.times[row])
            record = RejectedRecord(log, offset, time, request or "", user or "")
            self._trace.rejected(outcome, record)

    def _end(self, stream: int, outcome: Outcome) -> None:
        account = self.accounts[stream]
        setattr(account, outcome, getattr(account, outcome) + 1)

    def _index(self) -> None:
        """Derive indexes and attributions from the content."""
        self._requests.clear()
        if self._users is not None:
            self._users.clear()
        for number, bucket in sorted(self.shown.buckets.items()):
            for place, request in enumerate(bucket.requests):
                self._requests.add(request, number << PLACES | place)
            for place, user in enumerate(bucket.users):
                if self._users is not None:
                    self._users.add(user, number << PLACES | place)
        closed = self._closed(self.watermark)
        self._found.clear()
        self._later.clear()
        for reported in self.reported.between(NEVER, self.watermark):
            rows = self._finder.find(reported)
            self._wait(reported, [row for row in rows if self.shown.time(row) >= closed])

    def _attributed(self, rows: Collection[int]) -> dict[int, list[Reported]]:
        """Interactions of these lists, whose windows are over."""
        wanted, found = set(rows), dict[int, list[Reported]]()
        for reported in self.reported.between(NEVER, self.watermark):
            for row in wanted.intersection(self._finder.find(reported)):
                found.setdefault(row, []).append(reported)
        return found


def _of(parts: Mapping[str, bytes], prefix: str) -> dict[str, bytes]:
    return {name: each for name, each in parts.items() if name.startswith(prefix)}
