"""Windows of a long day: what the next minute costs, and what is kept; 4 partitions, 4 slices."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import psutil

from streameval import Accumulator, Batch
from streameval.aggregation.family import Family
from streameval.aggregation.lateness import late
from streameval.aggregation.spec import FamilySpec
from streameval.aggregation.time import HOUR, SECOND, Times
from streameval.aggregation.views import Views
from streameval.daemon.garbage import Garbage
from streameval.events import columns_of
from tests.benchmarks import traffic

PARTITIONS = 4
A_MINUTE = 20_000
QUIET_HOURS, HOURS = 23, 3
"""First a day with a tenth of the events, since it is only kept by the hour; then all of them."""

CUTOFFS = (1, 3, 5, 10, 20)
RANKED = [
    f"{name}@{k}"
    for name in ("hit_rate", "precision", "recall", "mrr", "map", "ndcg")
    for k in CUTOFFS
]
MINUTE = 60 * SECOND
SPANS = (5 * MINUTE, HOUR, 24 * HOUR)
_POOL = 60_000
_LABELS = [("a", "de"), ("a", "fr"), ("b", "de"), ("b", "fr")]


def main() -> None:
    """Print the cost of an event, of a slide and of a second's reading, and the memory."""
    _print_grouping()
    day = _Day()
    before = _resident()
    for minute in range(-60 * QUIET_HOURS, 0):
        day.feed(minute, 0, 0.1)
    day.read()
    counting: list[float] = []
    slides: list[tuple[float, float]] = []
    seconds: list[float] = []
    looks: list[float] = []
    with Garbage(lambda: 60.0 * len(looks)) as garbage:
        for minute in range(HOURS * 60):
            counting.append(_timed(partial(day.feed, minute, 0, 1 / 60)))
            slides.append((_timed(day.merge), _timed(day.read)))
            counting[-1] += _timed(partial(day.feed, minute, 1 / 60, 1))
            seconds.append(_timed(day.read))
            looks.append(_timed(partial(garbage.turn, idle=False)))
    print(f"a full garbage collection of all that: {_timed(gc.collect) * 1e3:.0f} ms")
    events = HOURS * 60 * A_MINUTE
    print(f"{events:,} events, {sum(counting) / events * 1e6:.2f} us each with windows and labels")
    merges, readings = zip(*slides[-120:], strict=True)
    _print("the next minute: windows and lifetime merged", merges)
    _print(f"its {len(RANKED)} metrics of 4 slices read besides", readings)
    _print("a look for garbage made in that minute", looks[-120:])
    _print("all of it after a minute without reading", seconds[-120:])
    print(f"{_resident() - before:.0f} MB more than before")
    day.restart()
    print(f"all merged anew, as after a start: {_timed(day.merge) * 1e3:.0f} ms")
    _print_saving(day)


def _print_grouping() -> None:
    """What a family costs per event before any statistic is updated."""
    family = Family(_spec(_Nothing), Times(spans=SPANS))
    batch, dimensions = _pool()
    rows = range(10_000)
    batch, dimensions = batch.take(rows), dimensions[:10_000]
    times = np.arange(10_000) * (2 * MINUTE // 10_000)
    best = 1.0
    for _ in range(20):
        start = time.process_time()
        judged = late(times, times, Times(spans=SPANS))
        family.update(batch, dimensions, judged.starts, times)
        family.advance(int(times[-1]))
        best = min(best, time.process_time() - start)
    print(
        f"2 panes, 4 slices, 10,000 events: {best / 1e4 * 1e6:.2f} us an event but for statistics"
    )


class _Nothing:
    version = 0

    def update_many(self, batch: Batch) -> None:
        """Counts nothing."""


def _spec(new: Callable[[], Any]) -> FamilySpec[Accumulator]:
    return FamilySpec(
        name="labels",
        dimensions=("variant", "country"),
        columns=(0, 1),
        spans=SPANS,
        new=new,
    )


class _Day:
    """Families of partitions that are fed minute after minute."""

    def __init__(self) -> None:
        spec = _spec(lambda: Accumulator(*RANKED))
        self.times = Times(spans=SPANS)
        self.families = [Family(spec, self.times) for _ in range(PARTITIONS)]
        self.views = Views(spec)
        self.views.families = self.families
        self.clock: int = -QUIET_HOURS * HOUR
        self._batch, self._dimensions = _pool()

    def feed(self, minute: int, begin: float, end: float) -> None:
        """Count a part of a minute's events in every partition."""
        share = A_MINUTE // PARTITIONS
        first, last = int(begin * share), int(end * share)
        happened = minute * MINUTE + np.arange(first, last) * (MINUTE // share)
        judged = late(happened, happened, self.times)
        self.clock = int(happened[-1])
        for number, family in enumerate(self.families):
            start = (minute * 7_919 + number * share + first) % (_POOL - share)
            rows = range(start, start + last - first)
            dimensions = self._dimensions[rows.start : rows.stop]
            family.update(self._batch.take(rows), dimensions, judged.starts, happened)
            family.advance(self.clock)

    def restart(self) -> None:
        """Forget what was merged so far."""
        self.views = Views(self.views.spec)
        self.views.families = self.families

    def merge(self) -> list[Accumulator]:
        """All windows and the lifetime of every slice."""
        found = [each for span in SPANS for _, each in self.views.window(span, self.clock)]
        return [*found, *(each for _, each in self.views.lifetime())]

    def read(self) -> None:
        """Every metric of those."""
        for accumulator in self.merge():
            for metric in accumulator.metrics:
                accumulator.read(metric.text)


def _pool() -> tuple[Batch, list[tuple[str, str]]]:
    events = traffic.offline(_POOL)
    return columns_of(events), [_LABELS[place * 7 % 4] for place in range(_POOL)]


def _print(name: str, seconds: Sequence[float]) -> None:
    ordered = sorted(seconds)
    middle, most = ordered[len(ordered) // 2] * 1e3, ordered[-1] * 1e3
    print(f"{name}: {middle:.1f} ms, {most:.1f} ms at most over the last {len(ordered)} minutes")


def _print_saving(day: _Day) -> None:
    sections = day.families[0].sections()
    copying = {section.name: _timed(section.content) for section in sections}
    size = sum(len(piece) for section in sections for piece in section.content()())
    slowest = max(copying, key=lambda name: copying[name])
    print(
        f"one partition saved: {len(sections)} sections, {size / 1e6:.1f} MB; all copied in "
        f"{sum(copying.values()) * 1e3:.1f} ms, {slowest} in {copying[slowest] * 1e3:.2f} ms"
    )


def _timed(task: Callable[[], object]) -> float:
    start = time.process_time()
    task()
    return time.process_time() - start


def _resident() -> float:
    gc.collect()
    return float(psutil.Process().memory_info().rss) / 1e6
