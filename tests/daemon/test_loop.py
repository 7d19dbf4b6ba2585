"""The ingest loop with a manual clock and a scripted source; its pace, and how it stops."""

from __future__ import annotations

import gc
import logging
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval.checkpoints.checkpointer import MemoryOnly
from streameval.checkpoints.dead_letters.queue import Queue
from streameval.checkpoints.storage import Disk
from streameval.config import Config, WebOptions
from streameval.config.tables import DeadLetterOptions, StateOptions
from streameval.daemon import Daemon, StopSignal, assembly
from streameval.daemon.assembly import Assembly, assemble
from streameval.daemon.loop import Loop
from streameval.daemon.systemd import Pulse
from streameval.decoding.fields import EventFields
from streameval.engine.ingest import RECORDS_AT_ONCE
from streameval.engine.pace import Pace
from streameval.engine.snapshot import Snapshot
from streameval.events.errors import RefusedRecordsError, SourceError
from streameval.events.records import Assignment, Partition, PartitionOwner, RecordBatch
from streameval.join.attribution import AttributionOptions, InteractionOptions
from streameval.join.state import JoinedState
from streameval.sources.settings import FilesOptions, SimulatorOptions
from tests.daemon.manual_time import CONFIG, HIT, PARTITION, Countdown, ManualTime, Script, loop_of
from tests.dead_letters.samples import FailingWriter
from tests.durability.process import Inline
from tests.processes import finished

JOINING = Config(
    metrics=["hit_rate@10"],
    source=FilesOptions(paths=["shown", "done"]),
    event=EventFields(time="ts", time_unit="s"),
    attribution=AttributionOptions(
        impressions="shown",
        window="1h",
        interactions=[InteractionOptions(source="done", types={"click": 1.0})],
    ),
)
MISS = b'{"recommendations": ["a", "b"], "interactions": ["z"]}'
HALF = b'{"recommendations": ["a", '


def looping(
    manual_time: ManualTime, script: Script | None, publish: Callable[[Snapshot], None]
) -> Loop:
    return loop_of(assemble(CONFIG, {}, manual_time.clock, script), manual_time, publish)


def run(script: Script, turns: int) -> list[Snapshot]:
    published: list[Snapshot] = []
    looping(script.manual_time, script, published.append).run(Countdown(turns))
    return published


def run_batches(batches: Sequence[Sequence[bytes | None]], turns: int) -> list[Snapshot]:
    return run(Script(ManualTime(), batches), turns)


def test_the_daemon_is_not_ready_before_the_source_answers() -> None:
    script = Script(ManualTime(), [])
    script.trouble = "no broker"
    published = run(script, 12)
    assert not any(snapshot.health.ready for snapshot in published)
    assert {snapshot.health.trouble for snapshot in published} == {"no broker"}


def test_the_threads_of_a_daemon_run_before_it_counts(tmp_path: Path) -> None:
    """One that begins when no memory is left may never say so, and the daemon would hang."""
    (tmp_path / "empty.ndjson").touch()
    config = Config(metrics=["ctr"], source=FilesOptions(paths=[str(tmp_path / "empty.ndjson")]))
    before = set(threading.enumerate())
    parts = assemble(config, {}, ManualTime().clock)
    loop = Loop(parts, lambda _: None, ManualTime().clock, lambda: None)
    names = {thread.name for thread in set(threading.enumerate()) - before}
    loop.run(lambda: True)
    assert {"checkpoints_0", "snapshots_0"} <= names


def test_a_snapshot_is_taken_every_second_even_without_records() -> None:
    published = run_batches([], 51)
    taken = [snapshot.taken_at for snapshot in published[:-1]]
    between = [round(later - earlier, 6) for earlier, later in pairwise(taken)]
    assert between == [1.0] * 10


class OnlyInNaps(Executor):
    """Reads snapshots only while the loop sleeps, as when counting keeps the processor.

    `work`: seconds that each snapshot takes.
    """

    def __init__(self, work: float) -> None:
        self.work, self.left = work, 0.0
        self.busy = 0.0
        self._task: Callable[[], object] = list
        self._future: Future[Any] = Future()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **_: Any) -> Future[Any]:
        self._task, self.left, self._future = partial(fn, *args), self.work, Future()
        return self._future

    def nap(self, seconds: float) -> None:
        self.left -= seconds
        if self.left <= 0 and not self._future.done():
            self._future.set_result(self._task())

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002, ARG002  as inherited
        self.nap(self.left)


@pytest.mark.parametrize("work", [0.01, 0.3, 1.5, 2.9])
def test_a_snapshot_is_at_most_ten_seconds_old_while_counting_never_ends(work: float) -> None:
    manual_time, ages, polls = ManualTime(), list[float](), 400
    thread = OnlyInNaps(work)

    def sleep(seconds: float) -> None:
        manual_time.advance(seconds)
        thread.nap(seconds)

    def publish(snapshot: Snapshot) -> None:
        thread.busy += work
        ages.append(manual_time.now - (taken[-1] if taken else manual_time.now))
        taken.append(snapshot.taken_at)

    taken: list[float] = []
    clock = manual_time.clock._replace(sleep=sleep, busy=lambda: thread.busy)
    parts = assemble(CONFIG, {}, clock, Script(manual_time, [[HIT]] * polls))
    Loop(parts, publish, clock, lambda: None, thread).run(Countdown(polls))
    assert len(ages) > 10
    assert max(ages) <= 10.0
    counted = 0.2 * polls / (manual_time.now - 1_000.0)
    assert counted >= min(0.95, 1 - work / 4) - 0.05, "counting keeps its share of the time"


def test_values_are_those_of_the_records() -> None:
    last = run_batches([[HIT, MISS, None], [HIT, HALF]], 5)[-1]
    (series,) = last.series
    assert (series.reading.total, series.reading.count) == (2.0, 3)
    assert (last.health.consumed, last.health.valid, last.health.tombstones) == (5, 3, 1)
    assert sum(last.health.invalid.values()) == 1


def test_the_last_snapshot_holds_the_last_batch_and_is_not_ready() -> None:
    script = Script(ManualTime(), [[HIT]] * 3)
    published = run(script, 3)
    assert published[0].health.ready
    assert published[-1].health.consumed == 3
    assert not published[-1].health.ready
    assert script.closed


def test_a_large_batch_is_counted_in_pieces_with_a_pulse_after_each() -> None:
    manual_time, beats = ManualTime(), list[int]()
    script = Script(manual_time, [[HIT] * (3 * RECORDS_AT_ONCE + 1)])
    parts = assemble(CONFIG, {}, manual_time.clock, script)
    tally = parts.ingest.tally
    parts.pulse = Pulse(manual_time.read, lambda: beats.append(tally.consumed))
    loop_of(parts, manual_time).run(Countdown(2))
    assert max(after - before for before, after in pairwise([0, *beats])) == RECORDS_AT_ONCE
    assert tally.consumed == 3 * RECORDS_AT_ONCE + 1


def test_only_a_poll_with_few_records_counts_as_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    manual_time, waited = ManualTime(), list[float]()
    parts = assemble(
        CONFIG, {}, manual_time.clock, Script(manual_time, [[HIT] * RECORDS_AT_ONCE, [HIT]])
    )
    monkeypatch.setattr(parts.checkpointer, "waited", waited.append)
    loop_of(parts, manual_time).run(Countdown(3))
    assert waited == pytest.approx([0.2, 0.2])


class Logged(Script):
    """Many lists of an impression log; then the end of it, and of an empty log of clicks."""

    logs = Partition("shown", 0), Partition("done", 0)

    def open(self, owner: PartitionOwner) -> None:
        owner.assigned(
            [Assignment(partition=log, identity="", begin=0, end=0, start=0) for log in self.logs]
        )

    def poll(self, seconds: float) -> Sequence[RecordBatch]:
        batches = super().poll(seconds)
        self.ended = () if batches else self.logs
        return [msgspec.structs.replace(batch, partition=self.logs[0]) for batch in batches]


def test_a_snapshot_has_no_half_counted_records() -> None:
    lists = 5 * RECORDS_AT_ONCE
    manual_time, published, beats = ManualTime(), list[Snapshot](), list[int]()
    values = [
        b'{"ts": %d, "request_id": "r%d", "recommendations": ["a"]}' % (number // 50, number)
        for number in range(lists)
    ]
    parts = assemble(JOINING, {}, manual_time.clock, Logged(manual_time, [values]))

    def beat() -> None:
        # Every beat is a second, so that a snapshot is due whenever one may be taken.
        manual_time.advance(1.0)
        (state,) = parts.ingest.partitions.values()
        assert isinstance(state, JoinedState)
        beats.append(state.outcomes[0].counted)

    parts.pulse = Pulse(manual_time.read, beat)
    loop_of(parts, manual_time, published.append).run(Countdown(12))
    actual = {sum(line.reading.count for line in snapshot.series) for snapshot in published}
    assert actual == {0, lists}
    assert max(after - before for before, after in pairwise(beats)) <= RECORDS_AT_ONCE


def test_a_join_that_fails_while_it_counts_closes_the_source() -> None:
    assert JOINING.attribution is not None
    few = msgspec.structs.replace(JOINING.attribution, max_open=10)
    manual_time = ManualTime()
    values = [
        b'{"ts": 1, "request_id": "r%d", "recommendations": ["a"]}' % number for number in range(30)
    ]
    script = Logged(manual_time, [values])
    config = msgspec.structs.replace(JOINING, attribution=few)
    with pytest.raises(RefusedRecordsError):
        loop_of(assemble(config, {}, manual_time.clock, script), manual_time).run(Countdown(12))
    assert script.closed


def test_a_source_that_fails_is_shown_and_closed() -> None:
    manual_time = ManualTime()
    script = Damaged(manual_time, [[HIT]])
    published: list[Snapshot] = []
    with pytest.raises(SourceError):
        looping(manual_time, script, published.append).run(lambda: False)
    assert published[-1].health.consumed == 1
    assert script.closed


class Damaged(Script):
    """A source that fails after its last batch."""

    def poll(self, seconds: float) -> Sequence[RecordBatch]:
        batches = super().poll(seconds)
        if not batches:
            raise SourceError(self.name, "is damaged", "repair it")
        return batches


def test_the_first_invalid_records_are_logged_and_the_others_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO):
        run_batches([[HALF]] * 40, 100)
    messages = [record for record in caplog.records if record.msg == "%s"]
    names = [record.getMessage() for record in messages]
    assert names.count("invalid_record") == 3
    summaries = [record.fields for record in messages if record.getMessage() == "invalid_records"]  # type: ignore[attr-defined]  # given by `extra`
    assert sum(fields["more"] for fields in summaries) == 37
    assert len(summaries) <= 3
    first = messages[names.index("invalid_record")].fields  # type: ignore[attr-defined]  # given by `extra`
    assert (first["partition"], first["offset"], first["reason"]) == (str(PARTITION), 0, "not_json")


@pytest.mark.parametrize(
    ("seconds", "told"), [(1.0, []), (5.0, ["source_trouble", "source_recovered"])]
)
def test_lasting_trouble_is_logged_when_it_begins_and_ends(
    seconds: float, told: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    manual_time = ManualTime()
    script = Script(manual_time, [])
    begin = manual_time.now + 3.0

    def until() -> bool:
        script.trouble = "no broker" if begin < manual_time.now < begin + seconds else None
        return manual_time.now > begin + 10.0

    with caplog.at_level(logging.INFO):
        looping(manual_time, script, lambda _: None).run(until)
    assert [record.getMessage() for record in caplog.records] == told


LOST = b'{"recommendations": ["a"], "interactions": [{"item": "a"}]}'
NONE = b'{"recommendations": ["a"], "interactions": []}'
PADDED = [
    b'{"recommendations": ["%d", "%d", "0"], "interactions": ["x", "0"]}' % (at, at + 100)
    for at in range(1, 61)
]


@pytest.mark.parametrize(
    ("batches", "trouble"),
    [
        ([PADDED[:30], PADDED[30:]], "item '0' is in 60 of 60 lists"),
        ([[LOST] * 10, [LOST, NONE]], "11 of 11 records with interactions are invalid"),
        ([[MISS] * 10_000, [MISS]], "10,001 lists with interactions and no hit"),
    ],
)
def test_advice_is_logged_once_and_stays_in_the_snapshot(
    batches: list[list[bytes]], trouble: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        published = run_batches(batches, 100)
    messages = [record.getMessage() for record in caplog.records]
    assert messages.count("advice") == 1
    assert str(published[-1].health.trouble).startswith(trouble)


def test_advice_about_each_value_of_a_label_is_logged_once_although_it_comes_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    first, second = (
        b'{"recommendations": ["a", "b"], "interactions": ["%b"], "variant": "v%d"}'
        % (item, number)
        for item, number in ((b"z", 1), (b"z", 2))
    )
    hit = b'{"recommendations": ["a", "b"], "interactions": ["a"], "variant": "v1"}'
    manual_time = ManualTime()
    wait: list[list[bytes]] = [[]] * 10
    script = Script(manual_time, [[second] * 2_000, *wait, [first] * 2_000, *wait, [hit]])
    config = msgspec.structs.replace(CONFIG, labels=["variant"])
    published: list[Snapshot] = []
    parts = assemble(config, {}, manual_time.clock, script)
    with caplog.at_level(logging.INFO):
        loop_of(parts, manual_time, published.append).run(Countdown(100))
    told = [
        record.fields["advice"].partition(":")[0]  # type: ignore[attr-defined]  # given by `extra`
        for record in caplog.records
        if record.getMessage() == "advice"
    ]
    assert told == ["variant=v2", "variant=v1"]


def _started_with_store(
    path: Path, manual_time: ManualTime, script: Script
) -> tuple[Assembly, Loop]:
    config = msgspec.structs.replace(CONFIG, state=StateOptions(path=str(path)))
    parts = assemble(config, {}, manual_time.clock, script)
    return parts, loop_of(parts, manual_time)


@pytest.mark.parametrize(("seconds", "healthy"), [(40, True), (61, False)])
def test_a_long_restore_is_progress_and_a_stalled_one_is_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, seconds: float, *, healthy: bool
) -> None:
    manual_time = ManualTime()
    _, first = _started_with_store(tmp_path, manual_time, Script(manual_time, [[HIT], [MISS]]))
    first.run(Countdown(2))
    _, loop = _started_with_store(tmp_path, manual_time, Script(manual_time, [[HIT], [MISS]]))
    read, seen = Disk.read, list[bool]()

    def slow(disk: Disk, path: Path, start: int, size: int) -> bytes:
        manual_time.advance(seconds)
        seen.append(loop.healthy)
        return read(disk, path, start, size)

    monkeypatch.setattr(Disk, "read", slow)
    loop.run(Countdown(0))
    assert seconds * len(seen) > 60
    assert set(seen) == {healthy}


@pytest.mark.parametrize(("seconds", "healthy"), [(40, True), (61, False)])
def test_catching_up_is_progress_and_an_endless_batch_is_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, seconds: float, *, healthy: bool
) -> None:
    manual_time = ManualTime()
    parts, loop = _started_with_store(tmp_path, manual_time, Backlog(manual_time, [[HIT]] * 5))
    apply, seen = parts.ingest.apply, list[bool]()

    def slow(*batches: RecordBatch) -> None:
        manual_time.advance(seconds)
        seen.append(loop.healthy)
        apply(*batches)

    monkeypatch.setattr(parts.ingest, "apply", slow)
    loop.run(Countdown(1))
    assert seen == [healthy] * 5


class Backlog(Script):
    """A source that delivers everything in one poll."""

    def poll(self, seconds: float) -> Sequence[RecordBatch]:
        batches_: list[RecordBatch] = []
        while batches := super().poll(seconds):
            batches_ += batches
        return batches_


def test_a_snapshot_of_a_source_without_counts_has_all_answers() -> None:
    manual_time = ManualTime()
    published: list[Snapshot] = []
    looping(manual_time, None, published.append).run(Countdown(3))
    assert msgspec.json.decode(msgspec.json.encode(published[-1].health))["recoveries"] == {}


def test_failing_checkpoints_are_trouble_of_a_daemon_that_stays_ready() -> None:
    manual_time, published = ManualTime(), list[Snapshot]()
    parts = assemble(CONFIG, {}, manual_time.clock, Script(manual_time, []))
    assert isinstance(parts.checkpointer, MemoryOnly)
    parts.checkpointer.failure = "checkpoints fail: full."
    loop_of(parts, manual_time, published.append).run(Countdown(3))
    health = published[0].health
    assert (health.ready, health.trouble) == (True, "checkpoints fail: full.")


def test_reading_pauses_while_dead_letters_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    manual_time, writer = ManualTime(), FailingWriter()
    queue = Queue(writer, max_bytes=3_000)
    monkeypatch.setattr(assembly, "dead_letters_of", lambda *_, **__: queue)
    config = msgspec.structs.replace(CONFIG, dead_letters=DeadLetterOptions())
    parts = assemble(config, {}, manual_time.clock, Script(manual_time, [[HALF]] * 20))
    parts.checkpointer = MemoryOnly(parts.ingest, queue, manual_time.clock, Inline())
    stop, writer.fails = Countdown(300), True
    counted_meanwhile = []
    published: list[Snapshot] = []

    def until() -> bool:
        writer.fails = manual_time.now < 1_030.0
        if writer.fails:
            counted_meanwhile.append(parts.ingest.positions.get(PARTITION, 0))
        return stop()

    with caplog.at_level(logging.INFO):
        loop_of(parts, manual_time, published.append).run(until)
    assert any("reading is paused" in str(snapshot.health.trouble) for snapshot in published)
    assert published[-1].health.trouble is None
    # A letter counts a thousand bytes and those of its value.
    assert max(counted_meanwhile) == 3
    assert parts.ingest.positions == {PARTITION: 20}
    assert sorted(set(writer.written)) == list(range(20))
    messages = [record.getMessage() for record in caplog.records]
    assert messages.index("reading_paused") < messages.index("reading_resumed")


@pytest.mark.parametrize("values", [[HALF] * 4, [HIT, HALF, HALF, HALF, HIT]])
def test_without_a_state_letters_are_written_before_too_many_of_them_end_the_process(
    values: Sequence[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    manual_time, writer = ManualTime(), FailingWriter()
    monkeypatch.setattr(assembly, "dead_letters_of", lambda *_, **__: Queue(writer))
    limits = DeadLetterOptions(max_run=2)
    config = msgspec.structs.replace(CONFIG, dead_letters=limits)
    script = Script(manual_time, [[HALF], values])
    with pytest.raises(RefusedRecordsError):
        loop_of(assemble(config, {}, manual_time.clock, script), manual_time).run(lambda: False)
    records = [HALF, *values]
    assert writer.written == [offset for offset, value in enumerate(records) if value == HALF]


def test_letters_that_cannot_be_written_before_the_process_ends_are_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    manual_time, writer = ManualTime(), FailingWriter()
    writer.fails = True
    monkeypatch.setattr(assembly, "dead_letters_of", lambda *_, **__: Queue(writer))
    config = msgspec.structs.replace(CONFIG, dead_letters=DeadLetterOptions(max_run=2))
    script = Script(manual_time, [[HALF] * 4])
    with pytest.raises(RefusedRecordsError), caplog.at_level(logging.INFO):
        loop_of(assemble(config, {}, manual_time.clock, script), manual_time).run(lambda: False)
    messages = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert ("ERROR", "dead_letters_were_not_written") in messages


def test_a_cheap_step_is_due_again_after_the_shortest_interval() -> None:
    pace = Pace(1.0)
    assert pace.interval == 1.0
    pace.note(0.01)
    assert pace.interval == 1.0


@given(st.floats(min_value=0, max_value=100))
def test_expensive_steps_take_a_twentieth_of_the_time_and_half_of_it_at_a_limit(
    cost: float,
) -> None:
    for pace, share in ((Pace(1.0), 20), (Pace(1.0, 4.0), 2)):
        pace.note(cost)
        pace.note(cost)
        assert pace.interval >= 1
        assert cost <= pace.interval / share * (1 + 1e-9)
    assert pace.interval <= max(4.0, 2 * cost)


def test_a_single_slow_step_does_not_delay_the_next() -> None:
    pace = Pace(1.0)
    for cost in (4.0, 0.0, 4.0):
        pace.note(cost)
        assert pace.interval == 1.0


def test_a_job_of_a_shell_heeds_an_interrupt_and_under_nohup_ignores_a_hang_up() -> None:
    ignored = {
        number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGHUP)
    }
    try:
        with StopSignal().on_signals() as stop:
            signal.raise_signal(signal.SIGHUP)
            assert not stop()
            signal.raise_signal(signal.SIGINT)
            assert stop()
            assert stop.signal == "SIGINT"
    finally:
        for number, handler in ignored.items():
            signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_only_requests_a_stop_and_is_handled_as_before_afterwards(
    number: signal.Signals,
) -> None:
    before = signal.getsignal(signal.SIGINT)
    with StopSignal().on_signals() as stop:
        assert not stop()
        signal.raise_signal(number)
        assert stop()
        assert stop.signal == number.name
    assert signal.getsignal(signal.SIGINT) is before


SIGNALLED_TWICE = """
import signal
from streameval.daemon.process import StopSignal

now = [0.0]
with StopSignal(clock=lambda: now[0]).on_signals() as stop:
    signal.raise_signal(signal.SIGTERM)
    now[0] = 0.4
    signal.raise_signal(signal.SIGTERM)
    print(stop.signal, flush=True)
    now[0] = 0.6
    signal.raise_signal(signal.SIGINT)
    print("still here")
"""


def test_a_second_signal_kills_and_a_repeated_one_does_not() -> None:
    done = finished([sys.executable, "-c", SIGNALLED_TWICE])
    assert (done.stdout, done.returncode) == ("SIGTERM\n", -signal.SIGINT)


def test_the_stop_is_due_after_the_given_seconds() -> None:
    manual_time = ManualTime()
    stop = StopSignal(2.5, manual_time.read)
    manual_time.advance(2.0)
    assert not stop()
    manual_time.advance(0.5)
    assert stop()


def test_garbage_collection_is_rare_while_counting() -> None:
    collections: list[tuple[int, int]] = []

    def until() -> bool:
        collections.append((gc.get_freeze_count(), gc.get_threshold()[0]))
        return True

    web = WebOptions(listen="127.0.0.1:0")
    config = Config(metrics=["ndcg@10"], source=SimulatorOptions(), web=web)
    before = gc.get_threshold()
    Daemon(config, {}).run(until)
    frozen, young = collections[0]
    assert frozen > len(gc.get_objects()) / 2
    assert young > 10 * before[0]
    assert (gc.get_freeze_count(), gc.get_threshold()) == (0, before)
