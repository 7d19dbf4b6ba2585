"""Records of a wrong clock change no window and no late count of the others."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import pytest

from streameval.engine.capture import RuntimeStatus, SnapshotCapture
from streameval.engine.clock import ClockRule
from streameval.engine.ingest import Ingest
from streameval.engine.partition import Tally
from streameval.engine.snapshot import LIFETIME, Snapshot
from streameval.events.records import Partition
from tests.effort import sampled
from tests.engine.counting import MINUTE, batch, ingest, layout, parts, record

BEGIN = 1_800_000_000
GOOD = 4_000
AHEAD = 41 * 24 * 3_600
WINDOWS = layout(("hit_rate@1",), spans=(5 * MINUTE, 60 * MINUTE), clock=ClockRule(MINUTE))
WALL = float(BEGIN + GOOD)
JUMP_OFFSETS = {"before": 0, "amid": GOOD // 2, "after": GOOD}


class Sent(NamedTuple):
    """A record in a log, with its key."""

    partition: int
    key: bytes | None
    value: bytes


def good(number: int, partitions: int) -> Sent:
    """One a second, of 300 users; some are stragglers, too late for every window."""
    user, second = number * 7_919 % 300, BEGIN + number
    fields = {"ts": second - 7_200 * (number % 97 == 96), "interactions": ["a"] * (number % 3 > 0)}
    where = user % partitions
    return Sent(where, b"user-%d" % user, record(**fields, variant=f"p{where}"))


def bad(number: int, near: int, partitions: int, keys: int) -> Sent:
    value = record(ts=BEGIN + near + AHEAD, variant="bad")
    return Sent(partitions - 1, b"phone-%d" % (number % keys), value)


def log(partitions: int, count: int, place: int, keys: int = 1) -> list[Sent]:
    """The good records, and before the one at a place those of the wrong clock."""
    sent = [good(number, partitions) for number in range(GOOD)]
    wrong = [bad(number, place, partitions, keys) for number in range(count)]
    return [*sent[:place], *wrong, *sent[place:]]


def counted(sent: Sequence[Sent], partitions: int, step: int = 500) -> Ingest:
    """The records in batches, saved and restored on the way."""
    ingested, offsets = ingest(WINDOWS), [0] * partitions
    for begin in range(0, len(sent), step):
        for number in range(partitions):
            sent_here = [
                record for record in sent[begin : begin + step] if record.partition == number
            ]
            values, keys = (
                [record.value for record in sent_here],
                [record.key for record in sent_here],
            )
            ingested.apply(batch(values, number, offsets[number], keys=keys))
            offsets[number] += len(sent_here)
        if begin == 3 * step:
            again = ingest(WINDOWS)
            for number, offset in enumerate(offsets):
                partition = Partition("events", number)
                again.restore(partition, {partition: offset}, parts(ingested, number))
            again.tally = ingested.tally
            ingested = again
    return ingested


def read(ingested: Ingest, wall: float = WALL, max_ahead: int | None = MINUTE) -> Snapshot:
    snapshots = SnapshotCapture(
        WINDOWS, source="s", labels=["variant"], started_at=0.0, max_ahead=max_ahead
    )
    return snapshots.take(ingested.copied(), wall, RuntimeStatus())


def windows(snapshot: Snapshot, *without: str) -> set[tuple[object, ...]]:
    return {
        (series.labels, series.window, series.reading)
        for series in snapshot.series
        if series.window != LIFETIME and series.labels[0] not in without
    }


@cache
def good_alone(partitions: int) -> Ingest:
    return counted(log(partitions, 0, 0), partitions)


@pytest.mark.parametrize(
    ("partitions", "count", "place"),
    sampled(
        [
            (partitions, count, place)
            for partitions in (4, 1)
            for count in (11, 25, 200)
            for place in JUMP_OFFSETS
        ],
        18,
    ),
)
def test_records_of_one_key_far_ahead_change_no_window_and_no_late_count(
    partitions: int, count: int, place: str
) -> None:
    without = good_alone(partitions)
    ingested = counted(log(partitions, count, JUMP_OFFSETS[place]), partitions)
    assert windows(read(ingested)) == windows(read(without)) != set()
    assert windows(read(ingested, max_ahead=None)) == windows(read(without, max_ahead=None))
    assert ingested.clock == without.clock
    assert ingested.tally.late == without.tally.late > 0
    assert ingested.tally.future == (0 if place == "after" else count)
    assert ingested.tally.valid == GOOD + count
    shuffled = counted(log(partitions, count, JUMP_OFFSETS[place]), partitions, 77)
    for number in range(partitions):
        assert parts(shuffled, number) == parts(ingested, number)


@pytest.mark.parametrize("ahead", [58 * 60, 10 * 365 * 24 * 3_600])
def test_scattered_records_without_a_key_change_no_window(ahead: int) -> None:
    """Each is a voter of its own, and seven together are no majority."""
    sent = log(4, 0, 0)
    places = [*range(300, GOOD - 500, 100), *[GOOD // 2] * 7]
    for place in sorted(places, reverse=True):
        sent.insert(place, Sent(3, None, record(ts=BEGIN + place + ahead, variant="bad")))
    without, ingested = good_alone(4), counted(sent, 4)
    assert windows(read(ingested)) == windows(read(without))
    assert ingested.clock == without.clock
    assert ingested.tally.late == without.tally.late
    assert ingested.tally.future == len(places)
    shuffled = counted(sent, 4, 77)
    for number in range(4):
        assert parts(shuffled, number) == parts(ingested, number)


def test_a_single_record_far_ahead_in_its_partition_moves_no_window() -> None:
    sent = [Sent(0, b"%d" % number, record(ts=BEGIN + number)) for number in range(100)]
    without, ingested = counted(sent, 2), counted([*sent, bad(0, 100, 2, 1)], 2)
    assert windows(read(ingested)) == windows(read(without)) != set()
    assert ingested.clock == without.clock


def test_the_last_records_of_a_wrong_clock_count_as_from_the_future_once_others_follow() -> None:
    sent = [*log(1, 200, GOOD), *(good(GOOD + number, 1) for number in range(21))]
    assert counted(sent, 1).tally.future == 200


@pytest.mark.parametrize("place", sampled(JUMP_OFFSETS, 2))
def test_records_of_eleven_keys_change_no_window_of_the_other_partitions(place: str) -> None:
    without = read(good_alone(4))
    snapshot = read(counted(log(4, 11, JUMP_OFFSETS[place], keys=11), 4))
    assert windows(snapshot, "p3", "bad") == windows(without, "p3") != set()


def test_a_clock_that_jumps_is_held_counted_and_named() -> None:
    ingested = counted(log(4, 11, GOOD, keys=11), 4)
    snapshots = SnapshotCapture(
        WINDOWS, source="s", labels=["variant"], started_at=0.0, max_ahead=MINUTE
    )
    health = snapshots.take(ingested.copied(), WALL, RuntimeStatus()).health
    assert [partition.ahead for partition in health.partitions] == [0, 0, 0, AHEAD]
    assert health.clock_jumps == 1
    advice = "events[3]: its clock is 984h ahead of this machine's"
    assert str(health.trouble).startswith(advice)
    again = snapshots.take(ingested.copied(), WALL + 1, RuntimeStatus()).health
    assert again.clock_jumps == 1
    caught_up = snapshots.take(ingested.copied(), WALL + AHEAD, RuntimeStatus()).health
    assert (caught_up.clock_jumps, caught_up.trouble) == (1, None)
    assert not any(partition.ahead for partition in caught_up.partitions)
    # It is more urgent than records that are invalid: right values leave windows.
    ingested.add(Tally(unusable=2 * GOOD), ingested.event_checks)
    for wall, urgent in ((WALL, advice), (WALL + AHEAD, "8,000 of ")):
        taken = snapshots.take(ingested.copied(), wall, RuntimeStatus())
        assert str(taken.health.trouble).startswith(urgent)


def test_a_replay_has_no_wall_clock() -> None:
    ingested = counted(log(4, 11, GOOD, keys=11), 4)
    snapshot = read(ingested, wall=0.0, max_ahead=None)
    assert windows(snapshot, "bad") == set()
    assert (snapshot.health.clock_jumps, snapshot.health.trouble) == (None, None)
    old = good_alone(4)
    assert windows(read(old, wall=WALL + 10 * AHEAD)) == windows(read(old, max_ahead=None))


@pytest.mark.parametrize("count", [100, 300])
def test_a_single_key_has_a_clock_in_the_end(count: int) -> None:
    sent = [Sent(0, b"producer", record(ts=BEGIN + number)) for number in range(count)]
    ingested = counted(sent, 1, 30)
    assert ingested.clock == (BEGIN + count - 1) * 1_000_000
    (state,) = ingested.partitions.values()
    assert state.time.is_final == (count == 300)
    wrong = [Sent(0, b"producer", record(ts=BEGIN + AHEAD))] * 10
    assert counted([*sent, *wrong], 1, 30).clock == ingested.clock


def test_after_a_quiet_night_an_early_user_is_not_from_the_future() -> None:
    morning = BEGIN + GOOD + 8 * 3_600
    early = [Sent(0, b"early", record(ts=morning + number)) for number in range(40)]
    later = [Sent(0, b"user-%d" % n, record(ts=morning + 40 + n)) for n in range(30)]
    ingested = counted([*log(1, 0, 0), *early, *later[:9]], 1)
    assert ingested.clock == good_alone(1).clock
    ingested = counted([*log(1, 0, 0), *early, *later], 1)
    assert ingested.clock == (morning + 69) * 1_000_000
    assert ingested.tally.future == 0


def test_a_key_takes_over_when_the_others_have_gone() -> None:
    later = [record(ts=BEGIN + GOOD + 3_600 + number) for number in range(300)]
    ingested = counted([*log(1, 0, 0), *(Sent(0, b"producer", instant) for instant in later)], 1)
    assert ingested.clock == (BEGIN + GOOD + 3_600 + 299) * 1_000_000


def test_users_vote_where_records_have_no_key() -> None:
    values = [record(ts=BEGIN + number, user=f"u{number % 40}") for number in range(400)]
    wrong = [record(ts=BEGIN + AHEAD, user="phone")] * 25
    ingested = ingest(WINDOWS)
    ingested.apply(batch([*values, *wrong, *values]))
    assert ingested.clock == (BEGIN + 399) * 1_000_000
