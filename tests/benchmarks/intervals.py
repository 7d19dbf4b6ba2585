"""Cost of intervals: time per event, comparisons, and state; `daemon` has its throughput."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Sequence

import msgspec

from streameval import Accumulator, Batch, Event, Intervals, compare
from streameval.config import Config
from streameval.config.options import WindowsOptions
from streameval.config.pipeline import new_ingest as ingest_of
from streameval.decoding.fields import EventFields
from streameval.engine.ingest import Ingest
from streameval.events.records import Partition
from streameval.sources.options import SimulatorOptions
from tests.batches import batch_of
from tests.benchmarks import traffic
from tests.benchmarks.timing import best_of
from tests.benchmarks.update import RANKED, in_batches

EVENTS = 60_000
USERS = 20_000
DAYS = 90
METRICS = [f"{name}@{k}" for name in ("hit_rate", "precision", "mrr", "ndcg") for k in (5, 10, 20)]
_DAY = 86_400 * 1_000_000
_NOON = 20_000 * _DAY + _DAY // 2
_PANES = ("labels/60/", "labels/3600/")
_ROUNDS = 7


def main() -> None:
    _print_counting("click", traffic.clicks(EVENTS, catalog=5_000))
    _print_counting("1-10", traffic.offline(EVENTS, catalog=5_000))
    _print_comparing()
    _print_sizes()


def _print_counting(name: str, events: Sequence[Event]) -> None:
    draw = random.Random(1)
    named = [
        msgspec.structs.replace(event, user=f"user-{draw.randrange(USERS)}", ts=_NOON + place)
        for place, event in enumerate(events)
    ]
    best = best_of(
        {"without": in_batches(named), "with": in_batches(named, intervals=Intervals())}, _ROUNDS
    )
    without, kept = (best[task] / EVENTS * 1e6 for task in ("without", "with"))
    print(
        f"{name:>5} traffic, K=20, six metrics: update_many {without:.2f} us an event, "
        f"with intervals {kept:.2f} (+{kept - without:.2f})"
    )


def _print_comparing() -> None:
    """Compare two arms that both counted events since the last comparison."""
    control, other = _of_days(1), _of_days(2)
    more = [Event(recommendations=["a"], interactions=["a"], user="u", ts=_NOON) for _ in range(5)]
    first: list[float] = []
    again: list[float] = []
    for _ in range(50):
        for arm in (control, other):
            arm.update_many(more)
            arm.read("ndcg@10")
        for seconds in (first, again):
            start = time.process_time()
            compare(control, other, "ndcg@10", method="anytime")
            seconds.append(time.process_time() - start)
    print(
        f"comparing {DAYS} days of two arms in one of {len(RANKED)} metrics: "
        f"{statistics.median(first) * 1e3:.2f} ms, unchanged {statistics.median(again) * 1e3:.2f}"
    )


def _of_days(seed: int) -> Accumulator:
    draw, lists = random.Random(seed), 2_000
    accumulator = Accumulator("ndcg@10", *RANKED, intervals=Intervals())
    for day in range(DAYS):
        events = traffic.clicks(lists, 10, catalog=500)
        users = [f"user-{draw.randrange(USERS)}" for _ in events]
        accumulator.update_many(
            Batch(
                recommendations=[event.recommendations for event in events],
                interactions=[event.interactions for event in events],
                users=users,
                times=[_NOON + (day - DAYS) * _DAY] * lists,
            )
        )
    return accumulator


def _print_sizes() -> None:
    """The growth of the saved parts of one slice."""
    for lists, minutes in ((20, 1), (20_000, 1), (20_000, 600)):
        without, kept = (_sizes(lists, minutes, intervals) for intervals in (None, Intervals()))
        grown = {name: (size - without.get(name, 0)) / 1024 for name, size in kept.items()}
        panes = [size for name, size in grown.items() if name.startswith(_PANES)]
        (day,) = (size for name, size in grown.items() if name.startswith("labels/86400/"))
        print(
            f"{lists:,} lists in {minutes} minutes, {len(METRICS)} metrics: {len(panes)} panes of "
            f"{sum(panes) / len(panes):.1f} KiB, day {day:.1f}, users {grown['labels/users']:.1f}"
        )


def _sizes(lists: int, minutes: int, intervals: Intervals | None) -> dict[str, int]:
    sections = _counted(lists, minutes, intervals).sections(Partition("events", 0))
    return {section.name: len(b"".join(section.content()())) for section in sections}


def _counted(lists: int, minutes: int, intervals: Intervals | None) -> Ingest:
    draw = random.Random(1)
    fields = EventFields(time="ts", time_unit="s")
    config = Config(
        metrics=METRICS,
        event=fields,
        intervals=intervals,
        windows=WindowsOptions(spans=["24h"]),
        source=SimulatorOptions(),
    )
    of = ingest_of(config)
    values = [
        msgspec.json.encode(
            {
                "recommendations": event.recommendations,
                "interactions": event.interactions,
                "user": f"user-{draw.randrange(USERS)}",
                "ts": _NOON // 1_000_000 + place * minutes * 60 // lists,
            }
        )
        for place, event in enumerate(traffic.offline(lists, catalog=500))
    ]
    of.apply(batch_of(Partition("events", 0), values))
    return of
