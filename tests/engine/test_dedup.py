from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval.engine.clock import BEFORE_ALL
from streameval.engine.dedup import SeenIds
from streameval.events.errors import DamagedStateError
from tests.batches import content_of
from tests.engine.counting import batch, ingest, layout, record

MINUTE = 60_000_000
SPAN = 10 * MINUTE
events = st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 40 * MINUTE)), max_size=40)


def judged(seen: SeenIds, rows: Sequence[tuple[str, int]], clock: int | None = None) -> list[bool]:
    """Whether ids are unseen, by a clock that accepts every event."""
    times = np.array([time for _, time in rows], dtype=np.int64)
    clocks = np.maximum(np.maximum.accumulate(times), BEFORE_ALL if clock is None else clock)
    unseen = seen.mark_seen([event_id for event_id, _ in rows], times, clocks)
    return [bool(is_new) for is_new in unseen]


def remembering(
    rows: Sequence[tuple[str, int]], clocks: Sequence[int]
) -> tuple[SeenIds, list[bool]]:
    """Whether ids are unseen, with the given clocks, in batches of one."""
    seen, unseen = SeenIds(SPAN, patience=3), list[bool]()
    for (event_id, time), clock in zip(rows, clocks, strict=True):
        unseen += seen.mark_seen([event_id], np.array([time]), np.array([clock])).tolist()
    return seen, unseen


def judged_slowly(rows: Sequence[tuple[str, int]]) -> list[bool]:
    """Whether ids are unseen, by definition, one event at a time."""
    width, now = MINUTE, -1
    unseen: list[bool] = []
    counted: list[tuple[str, int]] = []
    for event_id, time in rows:
        now = max(now, time)
        bucket = time // width
        buckets = [bucket_ for name, bucket_ in counted if name == event_id]
        within = [bucket_ for bucket_ in (bucket, *buckets) if (bucket_ + 1) * width > now - SPAN]
        new = bucket not in within or not any(bucket_ in within for bucket_ in buckets)
        unseen.append(new)
        if new and bucket in within:
            counted.append((event_id, bucket))
    return unseen


def content(seen: SeenIds) -> dict[str, bytes]:
    return content_of(seen.sections())


def clock_of(rows: Sequence[tuple[str, int]]) -> int | None:
    return max((time for _, time in rows), default=None)


def test_an_id_is_forgotten_after_its_span() -> None:
    seen = SeenIds(SPAN, patience=1)
    assert judged(seen, [("a", 0), ("b", 11 * MINUTE), ("a", 11 * MINUTE)]) == [True] * 3
    assert judged(seen, [("a", 12 * MINUTE)], 11 * MINUTE) == [False]


@given(events)
def test_deduplication_matches_its_definition(rows: list[tuple[str, int]]) -> None:
    assert judged(SeenIds(SPAN, patience=1), rows) == judged_slowly(rows)


@given(events, st.integers(0, 40))
def test_batches_make_no_difference(rows: list[tuple[str, int]], at: int) -> None:
    total, split = SeenIds(SPAN, patience=1), SeenIds(SPAN, patience=1)
    first, second = rows[:at], rows[at:]
    together = judged(split, first) + judged(split, second, clock_of(first))
    assert together == judged(total, rows)
    assert content(split) == content(total)


def test_ids_that_still_wait_are_restored_with_their_own_time() -> None:
    rows = [("a", 0), ("b", MINUTE), ("c", 60 * MINUTE)]
    lasting, _ = remembering(rows, [BEFORE_ALL, BEFORE_ALL, 60 * MINUTE])
    restored = SeenIds(SPAN, patience=3)
    restored.restore(content(lasting), 60 * MINUTE)
    assert content(restored) == content(lasting)
    assert "seen/ahead" in content(restored)


@given(events, events)
def test_restored_ids_continue_as_if_never_saved(
    before: list[tuple[str, int]], after: list[tuple[str, int]]
) -> None:
    lasting, restored = SeenIds(SPAN, patience=1), SeenIds(SPAN, patience=1)
    judged(lasting, before)
    clock = clock_of(before)
    restored.restore(content(lasting), BEFORE_ALL if clock is None else clock)
    assert content(restored) == content(lasting)
    assert judged(restored, after, clock) == judged(lasting, after, clock)
    assert content(restored) == content(lasting)


@pytest.mark.parametrize(
    ("before", "after", "recent"), [(60, 10, 1), (60, 10, 3), (10, 60, 1), (10, 60, 3)]
)
def test_ids_saved_with_another_span_are_found_and_forgotten_in_time(
    before: int, after: int, recent: int
) -> None:
    start, end = 30_000_000 * MINUTE, 30_000_000 * MINUTE + after * MINUTE
    saved, restored = SeenIds(before * MINUTE, recent), SeenIds(after * MINUTE, recent)
    judged(saved, [("a", start), ("b", start)])
    restored.restore(content(saved), start)
    assert judged(restored, [("a", start), ("b", start), ("c", start)]) == [False, False, True]
    rows = [(str(step), end + step * after * MINUTE) for step in range(5)]
    judged(restored, rows)
    assert sum(len(part) for part in content(restored).values()) < 100, content(restored)


def test_the_id_of_an_event_from_the_future_is_remembered_as_of_the_clock() -> None:
    far = 1_000_000 * MINUTE
    rows = [("a", 0), ("z", far), ("z", far), ("b", 0), ("z", far), ("c", 30 * MINUTE), ("z", far)]
    clocks = [0, 0, 0, 0, 0, 30 * MINUTE, 30 * MINUTE]
    seen, unseen = remembering(rows, clocks)
    assert unseen == [True, True, False, True, False, True, True]
    assert {name for name in content(seen) if name != "seen/ahead"} == {"seen/30"}


def test_the_id_of_a_confirmed_event_is_remembered_as_of_its_time() -> None:
    night = 600 * MINUTE
    rows = [("a", 0), ("z", night), ("b", night), ("z", night), ("c", night + MINUTE)]
    seen, unseen = remembering(rows, [0, 0, night, night, night + MINUTE])
    assert unseen == [True, True, True, False, True]
    assert set(content(seen)) == {"seen/600", "seen/601"}


def test_memory_is_bounded_by_the_span() -> None:
    seen = SeenIds(SPAN, patience=1)
    for minute in range(1_000):
        rows = [(f"{minute}-{n}", minute * MINUTE) for n in range(5)]
        judged(seen, rows, (minute - 1) * MINUTE if minute else None)
    assert sum(len(part) for part in content(seen).values()) < 12 * (5 * 8 + 8)


def test_a_section_that_changed_has_another_version() -> None:
    seen, contents = SeenIds(SPAN, patience=21), dict[tuple[str, int], bytes]()
    for number in range(60):
        later = 30 * MINUTE if number % 7 == 3 else 0
        seen.mark_seen([f"e{number}"], np.array([number + later]), np.array([number]))
        for section in seen.sections():
            current = b"".join(section.content()())
            assert contents.setdefault((section.name, section.version), current) == current


def test_a_section_that_did_not_change_keeps_its_version() -> None:
    seen = SeenIds(SPAN, patience=1)
    judged(seen, [("a", 0), ("b", 5 * MINUTE)])
    before = {section.name: section.version for section in seen.sections()}
    judged(seen, [("c", 5 * MINUTE)], 5 * MINUTE)
    after = {section.name: section.version for section in seen.sections()}
    assert [name for name in before if before[name] == after[name]] == ["seen/0"]


@pytest.mark.parametrize(
    ("name", "held"), [("seen/x", b"\xc4\x00"), ("seen/1", b"\xc4\x03abc"), ("seen/1", b"\xff")]
)
def test_damaged_sections_of_ids_are_refused(name: str, held: bytes) -> None:
    with pytest.raises(DamagedStateError, match="seen/"):
        SeenIds(SPAN, patience=1).restore({name: held}, 0)


def test_an_id_is_as_old_as_the_clock_of_its_own_log_says() -> None:
    counted = ingest(layout(dedup=MINUTE))
    days = [[record(ts=day * 86_400 + at, id=str(at)) for at in range(100)] for day in (0, 1)]
    twice = [[value for value in log for _ in range(2)] for log in days]
    for start in range(0, 200, 10):
        for number in (1, 0):
            counted.apply(batch(twice[number][start : start + 10], number, start))
    tallies = [counted.partitions[batch([], number).partition].tally for number in (0, 1)]
    assert [(tally.valid, tally.duplicates) for tally in tallies] == [(100, 100)] * 2


def test_an_id_repeated_long_after_before_the_clock_of_its_log_is_final_counts_once() -> None:
    counted = ingest(layout(dedup=MINUTE))
    log = [record(ts=10 * at, id=str(at)) for at in range(60)]
    log.insert(19, log[0])
    counted.apply(batch(log))
    assert (counted.tally.valid, counted.tally.duplicates) == (60, 1)


def test_a_repeated_event_is_late_or_from_the_future_once() -> None:
    counted = ingest(layout(spans=(5 * MINUTE,), dedup=600 * MINUTE))
    good = [record(ts=20_000 + at, id=str(at)) for at in range(60)]
    odd = [record(ts=10, id="late"), record(ts=1_000_000, id="far")]
    counted.apply(batch([*good[:30], *odd * 2, *good[30:]]))
    tally = counted.tally
    assert (tally.duplicates, tally.late, tally.future, tally.valid) == (2, 1, 1, 62)
