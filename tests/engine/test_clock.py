"""The clock of a log follows the majority of its recent events, for any batches."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator, Sequence
from itertools import pairwise
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval.engine.clock import (
    BEFORE_ALL,
    MAX_AHEAD,
    VOTERS,
    Clock,
    ClockRule,
    UnconfirmedPanes,
    provisional,
)
from tests.engine import slow_clock
from tests.engine.counting import MINUTE

SECOND = 1_000_000
HOUR = 3_600 * SECOND
times = st.integers(-50, 50) | st.integers(0, 20).map(lambda step: 10 * step) | st.just(10**6)
voters = st.sampled_from(["a", "b", "c", "d", "e", "f", None])
voted_logs = st.lists(st.tuples(times, voters), max_size=60) | st.lists(
    st.tuples(times, st.sampled_from(["a", "b"])), min_size=12, max_size=60
)
sizes = st.sampled_from([1, 3, 5, 21])


def cut(log: Sequence[int], ends: Sequence[int]) -> Iterator[slice]:
    edges = sorted({0, len(log), *(end for end in ends if end < len(log))})
    for begin, end in pairwise(edges):
        yield slice(begin, end)


@given(voted_logs, st.lists(st.integers(0, 60), max_size=5), st.integers(0, 30), sizes)
def test_the_clock_matches_its_definition_for_any_batches(
    events: list[tuple[int, str | None]], ends: list[int], max_ahead: int, size: int
) -> None:
    log, voters = [time for time, _ in events], [voter for _, voter in events]
    clock, clock_times, verdicts = Clock(ClockRule(max_ahead, size)), list[int](), dict[int, int]()
    for part in cut(log, ends):
        ticks = clock.advance(np.array(log[part], dtype=np.int64), voters[part])
        clock_times += ticks.clocks.tolist()
        for event in sorted(set(range(part.stop)) - verdicts.keys()):
            if (row := ticks.verdict(event)) is not None:
                verdicts[event] = part.start + row
        again = Clock(ClockRule(max_ahead, size))
        again.restore(clock.state())
        assert again.state() == clock.state()
        clock = again
    assert clock_times == slow_clock.clocks(log, max_ahead, size, voters)
    expected = enumerate(slow_clock.verdicts(len(log), size, voters))
    assert verdicts == {event: verdict for event, verdict in expected if verdict is not None}
    if log and not clock.is_final:
        assert clock.latest == slow_clock.provisional(log, max_ahead, size, voters)


@given(voted_logs, st.lists(st.integers(0, 60), max_size=9), sizes)
def test_a_clock_that_joins_events_when_a_vote_needs_them_has_the_state_of_one_that_joins_at_once(
    events: list[tuple[int, str | None]], ends: list[int], size: int
) -> None:
    log, voters = [time for time, _ in events], [voter for _, voter in events]
    lazy, eager = (Clock(ClockRule(5, size)) for _ in range(2))
    for part in cut(log, ends):
        times = np.array(log[part], dtype=np.int64)
        if not lazy.follow(times, voters[part], int(times.max(initial=BEFORE_ALL))):
            lazy.advance(times, voters[part])
        eager.advance(times, voters[part])
        assert lazy.now == eager.now
    assert lazy.state() == eager.state()


@given(voted_logs, st.lists(st.integers(0, 60), max_size=5), sizes, st.data())
def test_an_event_that_its_log_does_not_confirm_is_from_the_future(
    events: list[tuple[int, str | None]], ends: list[int], size: int, data: st.DataObject
) -> None:
    log, voters = [time for time, _ in events], [voter for _, voter in events]
    counted = data.draw(st.lists(st.booleans(), min_size=len(log), max_size=len(log)))
    starts = np.array(log, dtype=np.int64) // 10 * 10
    clocks = slow_clock.clocks(log, 5, size, voters)
    clock, rows, future, later = (
        Clock(ClockRule(5, size)),
        [False] * len(log),
        0,
        UnconfirmedPanes(),
    )
    waiting: dict[int, list[int]] = {}
    for part in cut(log, ends):
        ticks = clock.advance(np.array(log[part], dtype=np.int64), voters[part])
        judged = later.judge(starts[part], ticks, np.array(counted[part], dtype=np.bool_))
        future += judged.events
        for pane in judged.panes:
            for row in waiting.pop(pane):
                rows[row] = True
        for row, is_refuted in enumerate(judged.rows.tolist(), start=part.start):
            if is_refuted:
                rows[row] = True
            elif counted[row] and starts[row] > clocks[row]:
                waiting.setdefault(int(starts[row]), []).append(row)
        now = clocks[part.stop - 1]
        waiting = {pane: count for pane, count in waiting.items() if pane > now}
        saved, later = later.state(), UnconfirmedPanes()
        later.restore(saved)
    expected = slow_clock.refuted(starts.tolist(), clocks, counted, size, voters)
    assert rows == expected
    assert future == sum(expected)


def test_a_confirmed_pane_keeps_no_event_that_was_refuted_before() -> None:
    log = np.array([0, 0, 0, 100, 0, 0, 0, 100, 100, 100])
    ticks = Clock(ClockRule(5, 3)).advance(log)
    judged = UnconfirmedPanes().judge(log, ticks, None)
    assert (np.flatnonzero(judged.rows).tolist(), judged.events) == ([3], 1)


def test_the_clock_of_few_events_is_provisional() -> None:
    clock = Clock()
    clock.advance(np.arange(VOTERS - 1) * SECOND)
    assert (clock.now, clock.is_final, clock.latest) == (BEFORE_ALL, False, (VOTERS - 2) * SECOND)
    assert provisional([], MAX_AHEAD) is None


def test_half_of_a_log_does_not_move_the_clock() -> None:
    """Of an even number of votes, the smaller one of both in the middle is the median."""
    clock = Clock(ClockRule(10, 3))
    log = [time for number in range(20) for time in (number, 10**9 + number)]
    clock.advance(np.array(log, dtype=np.int64), ["near", "far"] * 20)
    assert clock.latest == 19


def test_after_a_quiet_night_the_clock_moves_with_the_eleventh_record() -> None:
    clock = Clock()
    evening, morning = np.arange(500) * SECOND, 8 * HOUR + np.arange(30) * SECOND
    clock.advance(evening)
    advance = clock.advance(morning)
    assert advance.clocks.tolist() == [evening[-1]] * 10 + morning[10:].tolist()


def test_a_sparse_log_is_not_held_back() -> None:
    clock = Clock()
    log = np.arange(100) * 30 * MINUTE
    assert clock.advance(log).clocks.tolist()[VOTERS - 1 :] == log[VOTERS - 1 :].tolist()


def test_a_minority_that_drifts_ahead_does_not_move_the_clock() -> None:
    log = [
        second * SECOND + (second * 7 % 3_600 * SECOND if second % 10 == 0 else 0)
        for second in range(4_000)
    ]
    clock = Clock()
    ahead = clock.advance(np.array(log)).clocks - np.arange(4_000) * SECOND
    assert ahead[VOTERS:].max() <= MAX_AHEAD


@pytest.mark.parametrize(
    "names",
    [
        ["ann", "bob", "é", "ann", ""],
        [b"ann", b"\x9d\n\xd9m", b"", b"bob", b"ann"],
        ["ann", None, 7, b"bob", ""],
        [7, 8, 7, None, 0],
    ],
)
def test_a_saved_voter_is_the_checksum_of_its_name(names: list[str | int | bytes | None]) -> None:
    clock = Clock(ClockRule(voters=21))
    clock.advance(np.arange(5), names)
    checksums = [
        -1
        if name in {None, "", b""}
        else crc32(name if isinstance(name, bytes) else str(name).encode())
        for name in names
    ]
    assert clock.state()[4] == checksums


def test_few_events_of_many_batches_hold_few_of_the_batches() -> None:
    clock = Clock(ClockRule(voters=21))
    clock.advance(np.zeros(40, np.int64))
    tracemalloc.start()
    for _ in range(500):
        assert clock.follow(np.zeros(2_048, np.int64)[:1], ["ann"], 0)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 100 * 8 * 2_048
