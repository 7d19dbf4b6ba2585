"""The event-time clock of one log, and the events that are ahead of it.

A producer with a wrong clock must not close windows, however many events it sends. So the clock
follows the majority of the newest voters of its log, by a one-sided Hampel filter over their newest
event times; a record key, else a user, is one voter. All results depend on the log alone, never on
batches.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from typing import Annotated, Any, Final, NamedTuple, TypeAlias
from zlib import crc32

import msgspec
import numpy as np
from numpy.typing import NDArray

from streameval.statistics.user_key import UserHashKey

VOTERS: Final = 21
"""Number of voters behind the clock: eleven must agree, so ten wrong ones change nothing."""

MAX_AHEAD: Final = 60_000_000
"""A minute, in microseconds."""

BEFORE_ALL: Final = -(2**62)
"""Before every event time: the clock of a log that is not final yet."""

_DEVIATIONS: Final = 3
_PATIENCE: Final = 12
_NOBODY: Final = -1
_EMPTY: Final = 0
"""The checksum of no bytes, and of a few others."""
_MOST_LATER: Final = 1_000
"""Events that wait to be joined with earlier ones until a vote or a checkpoint needs them."""
_OF_A_BATCH: Final = 16
"""Memory of a waiting batch besides its events, in events."""

Clocks: TypeAlias = NDArray[np.int64]
"""The clock after each event, microseconds."""

Voters: TypeAlias = Sequence[str | int | bytes | None]
"""The voter of each event: its record key, else its user; None or empty is a voter of its own."""


def longest_run(voters: int) -> int:
    """Number of newest events whose voters count, for a clock of so many voters.

    Example:
        >>> longest_run(VOTERS)
        252
    """
    return _PATIENCE * voters


Int64: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""An integer of a saved state, which arrays and MessagePack hold."""

_ClockState: TypeAlias = tuple[Int64, Int64, Int64, list[Int64], list[Int64]]


class ClockRule(msgspec.Struct, frozen=True):
    """The rule by which the clock of a log follows its events.

    Attributes:
        max_ahead: distance ahead of the agreed time at which a time is accepted, microseconds.
        voters: number of voters for a median; odd. With 1 every event time is accepted.
        user_key: of the digests of voters, who are users; None for digests without a key.
    """

    max_ahead: int = MAX_AHEAD
    voters: int = VOTERS
    user_key: UserHashKey | None = None

    @property
    def patience(self) -> int:
        """Number of records after which no earlier one waits for the clock."""
        return longest_run(self.voters)


class _Ballot(NamedTuple):
    """The votes of the newest voters.

    Attributes:
        votes: ascending.
        spread: median absolute deviation of the votes.
    """

    votes: Sequence[int]
    median: int
    spread: int


def _median(ascending: Sequence[int]) -> int:
    """The median; of an even number of votes the smaller one: half a log must not win."""
    return ascending[(len(ascending) - 1) // 2]


class _Events:
    """Consecutive events of a log: earlier ones that may still vote, and the next ones.

    Args:
        voters: digests of the earlier events.
        names: voters of the later ones, or None.
        user_key: of the digests.

    Attributes:
        first: number of its first event in the log.
        times: event times, microseconds.
    """

    def __init__(
        self,
        first: int,
        times: Clocks,
        voters: Clocks,
        names: Voters | None,
        user_key: UserHashKey | None,
    ) -> None:
        self.first = first
        self._key = user_key
        self.times = times
        self._voters = voters, names

    def followed_by(self, *parts: tuple[Clocks, Voters | None]) -> _Events:
        """These events and the next ones: parts with the time and voter of each."""
        voters, names = self._voters
        if names is not None or any(later is not None for _, later in parts):
            unnamed = [None] * (len(self.times) - len(voters))
            every = (later or [None] * len(times) for times, later in parts)
            names = [*(names or unnamed), *chain.from_iterable(every)]
        times = np.concatenate([self.times, *(times for times, _ in parts)])
        return _Events(self.first, times, voters, names, self._key)

    def newest(self, count: int) -> _Events:
        """The newest events."""
        voters, names = self._voters
        drop = max(0, len(self.times) - count)
        later = None if names is None else names[max(0, drop - len(voters)) :]
        return _Events(self.first + drop, self.times[drop:], voters[drop:], later, self._key)

    @property
    def voters(self) -> NDArray[np.int64]:
        """A digest of the voter of each event, `_NOBODY` for its own voter.

        Computed when a vote is needed, which is rare.
        """
        voters, names = self._voters
        if len(voters) < len(self.times):
            later = np.full(len(self.times) - len(voters), _NOBODY)
            voters = np.concatenate(
                (voters, later if names is None else _digests(names, self._key))
            )
            self._voters = voters, None
        return voters

    @cached_property
    def time_list(self) -> list[int]:
        """The event times as Python integers, which are faster one by one."""
        times: list[int] = self.times.tolist()
        return times

    def run(self, stop: int, size: int) -> tuple[dict[int, list[int]], bool]:
        """The newest voters before index `stop`, each with its times, newest first.

        Returns:
            The voters of the shortest run of events with `size` of them, and True if it is
            complete; a run is cut at `longest_run` events.
        """
        votes: dict[int, list[int]] = {}
        begin = max(0, stop - longest_run(size))
        voters, times = self.voters[begin:stop].tolist(), self.time_list
        for index in range(stop - 1, begin - 1, -1):
            voter = _identity(voters[index - begin], index)
            votes.setdefault(voter, []).append(times[index])
            if len(votes) == size:
                return votes, True
        return votes, stop - begin == longest_run(size)

    def ballot(self, index: int, size: int) -> _Ballot | None:
        """The ballot after the event at `index`; None with too few voters."""
        votes, is_complete = self.votes(index + 1, size)
        if not is_complete:
            return None
        votes.sort()
        median = _median(votes)
        return _Ballot(votes, median, _median(sorted(abs(vote - median) for vote in votes)))

    def votes(self, stop: int, size: int) -> tuple[list[int], bool]:
        """The votes of the events before index `stop`, and whether they are enough."""
        newest = self.voters[max(0, stop - size) : stop].tolist()
        named = [voter for voter in newest if voter != _NOBODY]
        if len(newest) == size and len(set(named)) == len(named):
            # Usual: each of them has another voter.
            return self.times[stop - size : stop].tolist(), True
        run, is_complete = self.run(stop, size)
        seats = -(-size // len(run)) if run else 0
        return [time for times in run.values() for time in times[:seats]], is_complete

    def verdict(self, index: int, size: int) -> int | None:
        """The index of the event that completes the run from `index` on, or None."""
        last, heard = index + longest_run(size) - 1, set[int]()
        for later, voter in enumerate(self.voters[index : last + 1].tolist(), index):
            heard.add(_identity(voter, later))
            if len(heard) == size:
                return later
        return last if last < len(self.voters) else None


class Ticks(NamedTuple):
    """The clock of a log at its next events.

    Attributes:
        clocks: the clock after each event.
        first: number of the first of these events in the log.
        events: these events, after the earlier ones without a verdict.
        size: number of voters behind the clock.
        regular: True if no time of these events is after the clock.
    """

    clocks: Clocks
    first: int
    events: _Events
    size: int
    regular: bool

    def verdict(self, number: int) -> int | None:
        """The row at which enough voters followed the event with this number, or None."""
        index = self.events.verdict(number - self.events.first, self.size)
        return None if index is None else index + self.events.first - self.first


class Clock:
    """The event-time clock of one log; it never goes back.

    The newest `voters` have one vote each: the time of their newest event. If fewer have spoken in
    the last `longest_run` events, each has the same number of votes: its newest events. The agreed
    time is the largest median of the votes. An event time that is at most `max_ahead` ahead of the
    agreed time is accepted at once. Any other makes the voters vote: their times are accepted up to
    `max_ahead` ahead of the agreed time, or three times the median absolute deviation of the votes,
    so that sparse logs can take their usual steps. The clock is the largest accepted time.

    Attributes:
        now: largest accepted time, microseconds; BEFORE_ALL before `voters` or a complete run.

    Example:
        >>> clock = Clock(ClockRule(max_ahead=10, voters=3))
        >>> clock.advance(np.array([1, 2, 3, 900, 4, 5, 901, 902])).clocks.tolist()[2:]
        [3, 3, 4, 5, 5, 902]
        >>> clock.advance(np.array([2000] * 4), ["a"] * 4).clocks.tolist()
        [902, 902, 902, 902]
    """

    def __init__(self, rule: ClockRule = ClockRule()) -> None:  # noqa: B008  immutable
        self.rule, self.max_ahead, self.size = rule, rule.max_ahead, rule.voters
        self.now = BEFORE_ALL
        self._agreed = BEFORE_ALL
        none = np.empty(0, dtype=np.int64)
        self._joined = _Events(0, none, none, None, rule.user_key)
        self._later: list[tuple[Clocks, Voters | None]] = []
        self._waiting = 0

    @property
    def is_final(self) -> bool:
        """True if enough voters have voted; before that, no event may be dropped as late."""
        return self.now != BEFORE_ALL

    @property
    def votes(self) -> list[int]:
        """The event times that vote, microseconds."""
        events = self._join()
        return events.votes(len(events.times), self.size)[0]

    @property
    def latest(self) -> int | None:
        """The clock; before it is final, an estimate from the events so far."""
        return self.now if self.is_final else provisional(self.votes, self.max_ahead)

    def advance(self, times: Clocks, voters: Voters | None = None) -> Ticks:
        """Advance by the next events of the log.

        `times`: event times, microseconds. `voters`: see `Voters`; None makes each event its own.
        """
        before = self._join()
        events, earlier = before.followed_by((times, voters)), len(before.times)
        usual = not len(times) or int(times.max()) <= self._limit
        accepted = times if usual else self._accept_times(events, earlier)
        clocks = np.maximum(np.maximum.accumulate(accepted), self.now)
        regular = usual or bool((times <= clocks).all())
        if len(times):
            self.now = int(clocks[-1])
            self._joined = events.newest(longest_run(self.size))
        return Ticks(clocks, events.first + earlier, events, self.size, regular)

    def follow(self, times: Clocks, voters: Voters | None, latest: int) -> bool:
        """Advance by events whose times are all accepted without a vote; else do nothing.

        `latest`: the largest of the times. Returns True if the clock has followed them.
        """
        if latest > self._limit:
            return False
        self.now = max(self.now, latest)
        self._later.append((times, voters))
        self._waiting += _OF_A_BATCH + len(times)
        if self._waiting > _MOST_LATER:
            self._join()
        return True

    def copy(self) -> Clock:
        """An independent copy."""
        copy = Clock(self.rule)
        copy.now, copy._agreed, copy._joined = self.now, self._agreed, self._join()
        return copy

    def state(self) -> list[Any]:
        """The state as plain integers."""
        events = self._undecided_events()
        return [self.now, self._agreed, events.first, events.time_list, events.voters.tolist()]

    def restore(self, state: Sequence[Any]) -> None:
        """Continue from the output of `state`; raises ValueError or msgspec.ValidationError."""
        now, agreed, first, times, voters = msgspec.convert(state, _ClockState)
        if len(times) != len(voters):
            raise ValueError(f"the clock has {len(times)} times of {len(voters)} voters")
        self.now, self._agreed = now, agreed
        arrays = np.array(times, np.int64), np.array(voters, np.int64)
        self._joined = _Events(first, *arrays, None, self.rule.user_key)

    def _join(self) -> _Events:
        """Join the events that wait; returns those that may still vote, and some before them."""
        if self._later:
            events = self._joined.followed_by(*self._later)
            self._joined, self._later = events.newest(longest_run(self.size)), []
            self._waiting = 0
        return self._joined

    @property
    def _limit(self) -> int:
        """The time up to which an event time is accepted without a vote."""
        return BEFORE_ALL if self._agreed == BEFORE_ALL else self._agreed + self.max_ahead

    def _accept_times(self, events: _Events, earlier: int) -> Clocks:
        """The accepted times of the events after the `earlier` ones.

        A time far ahead is replaced by the largest one that the voters accept; BEFORE_ALL if there
        are too few voters.
        """
        accepted, limit = events.times[earlier:].copy(), self._limit
        ahead = earlier + np.flatnonzero(accepted > limit)
        if earlier < self.size - 1:
            # Fewer events than voters have no ballot.
            accepted[ahead[ahead < self.size - 1] - earlier] = BEFORE_ALL
            ahead = ahead[ahead >= self.size - 1]
        for index, time in zip(ahead.tolist(), events.times[ahead].tolist(), strict=True):
            if time > limit:
                accepted[index - earlier] = BEFORE_ALL
                if (ballot := events.ballot(index, self.size)) is not None:
                    self._agreed = max(self._agreed, ballot.median)
                    most = self._agreed + max(self.max_ahead, _DEVIATIONS * ballot.spread)
                    accepted[index - earlier] = ballot.votes[bisect_right(ballot.votes, most) - 1]
                limit = self._limit
        return accepted

    def _undecided_events(self) -> _Events:
        """The events that may still vote."""
        events = self._join()
        run, _ = events.run(len(events.times), self.size)
        return events.newest(sum(map(len, run.values())))


def provisional(votes: Sequence[int], max_ahead: int) -> int | None:
    """An estimate of the clock from too few voters; None without votes.

    Example:
        >>> provisional([1, 2, 900], 10), provisional([0, 3600, 7200], 10)
        (2, 7200)
    """
    if not votes:
        return None
    middle = len(votes) // 2
    median = sorted(votes)[middle]
    spread = sorted(abs(time - median) for time in votes)[middle]
    limit = median + max(max_ahead, _DEVIATIONS * spread)
    return max(time for time in votes if time <= limit)


def _name(voter: str | int | bytes | None) -> str:
    """The text of a voter; empty for nobody."""
    if isinstance(voter, bytes):
        return voter.decode("utf-8", "surrogateescape")
    return "" if voter is None else str(voter)


def _digest(voter: str | int | bytes | None) -> int:
    """A digest that is equal in every process; once in 2^32 two voters collide and share a vote."""
    if voter is None:
        return _NOBODY
    name = voter if isinstance(voter, bytes) else str(voter).encode()
    return crc32(name) if name else _NOBODY


def _digests(voters: Voters, user_key: UserHashKey | None) -> NDArray[np.int64]:
    """The `_digest` of each voter; with a key, as many bits of its keyed hash."""
    if user_key is not None:
        texts = [_name(voter) for voter in voters]
        keyed = (user_key.hashes(texts) >> np.uint64(32)).astype(np.int64)
        keyed[[row for row, text in enumerate(texts) if not text]] = _NOBODY
        return keyed
    try:
        # Usual: all are text, or all bytes, and the loop runs in C.
        names = voters if isinstance(voters[0], bytes) else map(str.encode, voters)  # type: ignore[arg-type]  # refused if not
        digests = np.fromiter(map(crc32, names), np.int64, len(voters))  # type: ignore[arg-type]  # the same names
    except TypeError:
        return np.fromiter(map(_digest, voters), np.int64, len(voters))
    for index in np.flatnonzero(digests == _EMPTY).tolist():
        digests[index] = _digest(voters[index])
    return digests


def _identity(voter: int, index: int) -> int:
    """The voter, or a number of its own for the event at this index."""
    return _NOBODY - index if voter == _NOBODY else voter


class Refuted(NamedTuple):
    """Events whose time the log has refuted.

    Attributes:
        panes: starts of panes whose events of earlier calls are refuted.
        rows: True for the refuted events of this call.
        events: number of refuted events of this and earlier calls.
    """

    panes: Sequence[int]
    rows: NDArray[np.bool_]
    events: int


class UnconfirmedPanes:
    """Panes that begin after the clock, until the log confirms or refutes their events.

    A pane is confirmed when the clock reaches it. It is refuted when the clock has not, and
    enough voters have followed all of its events; see `Ticks.verdict`.
    """

    def __init__(self) -> None:
        self._waiting: dict[int, tuple[int, int]] = {}

    @property
    def any_waits(self) -> bool:
        """True if any pane waits."""
        return bool(self._waiting)

    def judge(
        self, starts: NDArray[np.int64], ticks: Ticks, counted: NDArray[np.bool_] | None
    ) -> Refuted:
        """Judge the next events of the log.

        `counted`: mask of the events that count; the others only confirm or refute. None is all.
        """
        rows = np.zeros(len(starts), dtype=np.bool_)
        ahead = list[int]()
        if not ticks.regular:
            later = starts > ticks.clocks
            ahead = np.flatnonzero(later if counted is None else later & counted).tolist()
        if not (ahead or self._waiting) or not len(starts):
            return Refuted([], rows, 0)
        members: dict[int, list[int]] = {start: [] for start in self._waiting}
        for row, start in zip(ahead, starts[ahead].tolist(), strict=True):
            members.setdefault(start, []).append(row)
        panes, events = list[int](), 0
        waiting, self._waiting = self._waiting, {}
        for start, pane_rows in sorted(members.items()):
            refuted, earlier = self._judge(start, pane_rows, waiting.get(start), ticks)
            rows[refuted] = True
            events += len(refuted) + earlier
            if earlier:
                panes.append(start)
        return Refuted(panes, rows, events)

    def state(self) -> list[Any]:
        """Start of each pane, number of its last event in the log, and number of its events."""
        return [[start, *self._waiting[start]] for start in sorted(self._waiting)]

    def restore(self, state: Sequence[Any]) -> None:
        """Continue from the output of `state`; raises msgspec.ValidationError for other values."""
        waiting = msgspec.convert(state, list[tuple[Int64, Int64, Int64]])
        self._waiting = {start: (last, events) for start, last, events in waiting}

    def _judge(
        self, start: int, pane_rows: Sequence[int], before: tuple[int, int] | None, ticks: Ticks
    ) -> tuple[list[int], int]:
        """Refuted rows of one pane, and the number of its earlier events that are refuted."""
        last, earlier = before or (ticks.first, 0)
        rows: list[int] = []
        refuted, waiting = 0, list[int]()
        for row in pane_rows:
            # No verdict without as many events as voters.
            if (earlier or waiting) and row - (last - ticks.first) >= ticks.size:
                verdict = ticks.verdict(last)
                if verdict is not None and row > verdict:
                    rows, waiting = rows + waiting, []
                    refuted, earlier = refuted + earlier, 0
            waiting.append(row)
            last = ticks.first + row
        verdict = ticks.verdict(last)
        if ticks.clocks[-1 if verdict is None else verdict] >= start:
            return rows, refuted
        if verdict is not None:
            return rows + waiting, refuted + earlier
        self._waiting[start] = (last, earlier + len(waiting))
        return rows, refuted
