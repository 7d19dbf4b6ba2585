"""The longest iterations of the polling loop at 50 slices x 4 partitions, by CPU time.

An iteration includes polls, and copies for snapshots and checkpoints.
"""

from __future__ import annotations

import gc
import random
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from streameval.checkpoints.scheduler import ProcessClock
from streameval.config import Config
from streameval.config.options import StateOptions, WindowsOptions
from streameval.daemon.assembly import assemble
from streameval.daemon.loop import Loop
from streameval.decoding.fields import EventFields
from streameval.events.records import Assignment, Owner, Partition, RecordBatch
from streameval.join.options import AttributionOptions, InteractionOptions
from streameval.sources.options import FilesOptions, SimulatorOptions
from streameval.sources.source import UNHURRIED, SourceStatus
from tests.batches import batch_of

SLICES, PARTITIONS = 50, 4
BATCH = 2_500
"""Records per batch; four batches are the maximum of one poll of Kafka's clients."""

DAY, MINUTE = 86_400, 60
_START = 1_700_000_000
_LISTS = 25_000
"""Open lists in each partition of a join."""

_ITEMS = [f"item-{number}" for number in range(5_000)]


def main() -> None:
    """Print the longest iterations, without and with items shown."""
    windows()
    print("with item_coverage@20, 5,000 items:")
    windows("item_coverage@20")
    join()


class IterationTimes:
    """CPU milliseconds of each iteration of the polling thread."""

    def __init__(self) -> None:
        self.durations: list[float] = []
        self._thread = threading.get_ident()
        self._last = time.thread_time()

    def begin(self) -> None:
        self._last = time.thread_time()

    def beat(self) -> None:
        if threading.get_ident() == self._thread:
            now = time.thread_time()
            self.durations.append(1e3 * (now - self._last))
            self._last = now

    def print_summary(self, name: str) -> None:
        times = np.array(self.durations or [0.0])
        print(
            f"{name:52}{times.size:7,} iterations, median {np.median(times):5.1f} ms, "
            f"99 % {np.quantile(times, 0.99):5.1f} ms, longest {times.max():6.1f} ms",
            flush=True,
        )
        self.durations = []


class ScriptedSource:
    """A source with prepared polls that assigns logs of equal number together."""

    name = cluster = "benchmark"
    budget = UNHURRIED

    def __init__(self, topics: Sequence[str]) -> None:
        self.logs = [Partition(topic, number) for topic in topics for number in range(PARTITIONS)]
        self.polls: Iterator[Sequence[RecordBatch]] = iter(())
        self.ended: Collection[Partition] = ()
        self.joined = False
        self._owner: Owner | None = None

    def open(self, owner: Owner) -> None:
        self._owner = owner

    def poll(self, seconds: float) -> Sequence[RecordBatch]:
        if not self.joined and self._owner is not None:
            self.joined = True
            self._owner.assigned([assignment(log) for log in self.logs])
        batches = next(self.polls, None)
        if batches is None:
            time.sleep(min(seconds, 0.01))
        return batches or ()

    def commit(self, *_: Any, **__: Any) -> str | None:
        return None

    def pause(self, _partitions: Collection[Partition]) -> None:
        return

    @property
    def status(self) -> SourceStatus:
        return SourceStatus(joined=self.joined, ended=self.ended)

    def close(self) -> None:
        return


def assignment(log: Partition) -> Assignment:
    """The assignment of a log that is read from its beginning."""
    return Assignment(
        partition=log,
        identity="benchmark",
        begin=0,
        end=1 << 40,
        start=0,
        partitions=PARTITIONS,
    )


class ScriptedLoop:
    """A loop over scripted polls."""

    def __init__(self, config: Config, topics: Sequence[str]) -> None:
        self.times = IterationTimes()
        self.source = ScriptedSource(topics)
        parts = assemble(config, {}, ProcessClock(), self.source)
        parts.pulse._on_beat = self.times.beat
        self.ingest = parts.ingest
        self.loop = Loop(parts, lambda _: None, ProcessClock(), lambda: None)
        self._until: list[Callable[[], bool]] = []

    def run(
        self, *phases: tuple[str | None, Iterable[Sequence[RecordBatch]], Callable[[], bool]]
    ) -> None:
        """Run phases of (name, polls, whether it is over); without a name, print nothing."""
        waiting = list(phases)

        def until() -> bool:
            while waiting and waiting[0][2]():
                name, _, _ = waiting.pop(0)
                if name is None:
                    self.times.durations = []
                else:
                    self.times.print_summary(name)
                if waiting:
                    self.source.polls = iter(waiting[0][1])
            return not waiting

        self.source.polls = iter(waiting[0][1])
        # As in `streameval run`; it also hides the waiting batches from the collector.
        gc.collect()
        gc.freeze()
        self.times.begin()
        self.loop.run(until)


def lasting(seconds: float) -> Callable[[], bool]:
    """A condition that is true `seconds` after its first call."""
    began: list[float] = []

    def over() -> bool:
        began.append(time.monotonic())
        return began[-1] - began[0] >= seconds

    return over


def windows(*more: str) -> None:
    """Panes: catching up, a restart with its first readings, and a clock that jumps by a day.

    Args:
        more: metrics in addition to the rank metrics.
    """
    with tempfile.TemporaryDirectory() as folder:
        config = _config(
            *more,
            source=SimulatorOptions(),
            catalog=len(_ITEMS),
            windows=WindowsOptions(spans=["5m", "1h", "24h"]),
            state=StateOptions(path=str(Path(folder) / "state"), interval="1s"),
        )
        log = Log()
        day = ScriptedLoop(config, ["events"])
        history = list(log.history())
        live = list(log.live(160))
        day.run(
            (None, history, lambda: day.ingest.tally.consumed >= log.before_live),
            ("catching up, checkpoints every second", live, lasting(12)),
        )
        log.cut(day.ingest.positions)
        again = ScriptedLoop(config, ["events"])
        again.run(
            ("restart and first readings", (), lasting(4)),
            (None, list(log.live(4)), lasting(2)),
            ("a clock that jumps by a day", list(log.live(8, DAY)), lasting(4)),
        )


class Log:
    def __init__(self) -> None:
        self._draw = random.Random(1)
        self._offsets = dict.fromkeys(range(PARTITIONS), 0)
        self._now = _START
        self.before_live = 0

    def history(self) -> Iterator[list[RecordBatch]]:
        hours = [_START - hour * 3_600 for hour in range(23, 2, -1)]
        minutes = [_START - minute * MINUTE for minute in range(122, 0, -1)]
        for when in (*hours, *minutes):
            yield [self._batch(number, 100, when) for number in range(PARTITIONS)]
        self.before_live = sum(self._offsets.values())

    def live(self, polls: int, ahead: int = 0) -> Iterator[list[RecordBatch]]:
        self._now += ahead
        for _ in range(polls):
            yield [self._batch(number, BATCH, self._now) for number in range(PARTITIONS)]
            self._now += 5

    def cut(self, positions: Mapping[Partition, int]) -> None:
        for partition, position in positions.items():
            self._offsets[partition.number] = position

    def _batch(self, partition: int, count: int, when: int) -> RecordBatch:
        first = self._offsets[partition]
        self._offsets[partition] += count
        values = [self._event(number, when) for number in range(first, first + count)]
        return batch_of(Partition("events", partition), values, first)

    def _event(self, number: int, when: int) -> bytes:
        shown = self._draw.sample(_ITEMS, 20)
        acts = shown[:1] if number % 5 == 0 else []
        return msgspec.json.encode(
            {
                "variant": f"v{number % SLICES}",
                "ts": when,
                "recommendations": shown,
                "interactions": acts,
            }
        )


def join() -> None:
    """Open lists that all close at once."""
    shown, done = "impressions", "clicks"
    for name in ("a clock that jumps", "the end of all logs"):
        with tempfile.TemporaryDirectory() as folder:
            config = _config(
                source=FilesOptions(paths=[shown, done]),
                windows=WindowsOptions(spans=["5m", "1h", "24h"]),
                attribution=AttributionOptions(
                    impressions=shown,
                    window="30m",
                    lateness="1m",
                    interactions=[InteractionOptions(source=done, types={"click": 1.0})],
                ),
                state=StateOptions(path=str(Path(folder) / "state"), interval="1s"),
            )
            run = ScriptedLoop(config, [shown, done])
            open_lists = list(_open_lists(shown, done))
            total = sum(len(batch.values) for poll in open_lists for batch in poll)
            jumps = name == "a clock that jumps"
            jump = [_jump(shown, done)] if jumps else []
            filled = partial(_consumed, run, total)
            ended = partial(_end, run, logs=() if jumps else run.source.logs)
            run.run(
                ("join, open lists that come", open_lists, filled),
                (None, (), ended),
                (f"join, {name}: {_LISTS * PARTITIONS:,} open lists", jump, lasting(6)),
            )


def _consumed(run: ScriptedLoop, records: int) -> bool:
    return run.ingest.tally.consumed >= records


def _end(run: ScriptedLoop, logs: Collection[Partition]) -> bool:
    run.source.ended = logs
    return True


def _open_lists(shown: str, done: str) -> Iterator[list[RecordBatch]]:
    draw, size = random.Random(2), 2_500
    for start in range(0, _LISTS, size):
        poll = []
        for partition in range(PARTITIONS):
            numbers = range(start, start + size)
            lists = [_list(draw, partition, number) for number in numbers]
            clicks = [_click(draw, partition, number) for number in numbers if number % 5 == 0]
            poll.append(batch_of(Partition(shown, partition), lists, start))
            poll.append(batch_of(Partition(done, partition), clicks, start // 5))
        yield poll


def _list(draw: random.Random, partition: int, number: int) -> bytes:
    return msgspec.json.encode(
        {
            "request_id": f"req-{partition}-{number:08d}",
            "variant": f"v{number % SLICES}",
            "ts": _START + number // 25,
            "recommendations": draw.sample(_ITEMS, 20),
        }
    )


def _click(draw: random.Random, partition: int, number: int) -> bytes:
    return msgspec.json.encode(
        {
            "request_id": f"req-{partition}-{number:08d}",
            "ts": _START + number // 25 + 30,
            "item": draw.choice(_ITEMS),
            "type": "click",
        }
    )


def _jump(shown: str, done: str) -> list[RecordBatch]:
    draw, poll = random.Random(3), []
    for partition in range(PARTITIONS):
        later = range(_LISTS + 25 * DAY, _LISTS + 25 * DAY + 25)
        lists = [_list(draw, partition, number) for number in later]
        clicks = [_click(draw, partition, number) for number in later]
        poll.append(batch_of(Partition(shown, partition), lists, _LISTS))
        poll.append(batch_of(Partition(done, partition), clicks, _LISTS // 5))
    return poll


def _config(*more: str, **settings: Any) -> Config:
    return Config(
        metrics=["ndcg@10", "hit_rate@10", "mrr", *more],
        labels=["variant"],
        event=EventFields(time="ts", time_unit="s"),
        label_cap=100,
        **settings,
    )
