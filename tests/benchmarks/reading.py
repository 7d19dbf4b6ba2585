"""Cost of reading after each event, beside a loop written by hand."""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias

from streameval import Accumulator
from tests.benchmarks import traffic

THREE = ("hit_rate@10", "mrr@10", "ndcg@10")
NAMES = ("hit_rate", "precision", "recall", "mrr", "map", "ndcg")
EIGHTEEN = tuple(f"{name}@{k}" for name in NAMES for k in (5, 10, 20))
WARM, EVENTS, ROUNDS = 600, 2_000, 5

Pairs: TypeAlias = Sequence[tuple[Sequence[Any], Sequence[Any]]]


class Counting(Protocol):
    """What counts one event, and reads one metric."""

    def update(self, shown: Sequence[Any], acts: Sequence[Any], /) -> object: ...
    def read(self, name: str, /) -> object: ...


def main() -> None:
    """Print microseconds per event, and the ratio to the loop: medians of processor time."""
    for kind, events in (
        ("a click in each list", _clicked()),
        ("1 to 10 interactions", _offline()),
    ):
        for names, every in ((THREE, 0), (THREE, 1), (THREE, 10), (THREE, 100), (EIGHTEEN, 1)):
            tasks: dict[str, Callable[[], Counting]] = {
                "hand": partial(Loop, names),
                "streameval": partial(Accumulator, *names),
            }
            times = _medians(tasks, events, names, every)
            reads = f"{len(names)} reads after each {every}" if every else "update alone"
            figures = (
                f"{name} {us:.2f} us ({us / times['hand']:.1f})" for name, us in times.items()
            )
            print(f"{kind}, {reads}: {', '.join(figures)}")


def _medians(
    tasks: dict[str, Callable[[], Counting]], events: Pairs, names: Sequence[str], every: int
) -> dict[str, float]:
    taken: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(ROUNDS):
        for name, make in tasks.items():
            taken[name].append(_seconds(make(), events, names, every))
    return {name: statistics.median(each) * 1e6 for name, each in taken.items()}


def _seconds(counting: Counting, events: Pairs, names: Sequence[str], every: int) -> float:
    """Seconds of an event, after some that warm up."""
    for pair in events[:WARM]:
        counting.update(*pair)
    for pair in events[WARM : WARM + 10]:
        counting.update(*pair)
        for name in names:
            counting.read(name)
    measured = events[WARM + 10 :]
    start = time.process_time()
    for at, pair in enumerate(measured, start=1):
        counting.update(*pair)
        if every and at % every == 0:
            for name in names:
                counting.read(name)
    return (time.process_time() - start) / len(measured)


def _clicked() -> Pairs:
    draw = random.Random(2)
    shown = [event.recommendations for event in traffic.clicks(WARM + EVENTS)]
    return [(items, [draw.choice(items)]) for items in shown]


def _offline() -> Pairs:
    return [
        (event.recommendations, list(event.interactions))
        for event in traffic.offline(WARM + EVENTS)
    ]


def values(shown: Sequence[Any], acts: Sequence[Any], cutoffs: Sequence[int]) -> dict[str, float]:
    """The metrics of one list with a hit, as somebody writes them for a loop."""
    wanted, found = set(acts), {}
    for k in cutoffs:
        hits, first, dcg, precisions = 0, 0, 0.0, 0.0
        for rank, item in enumerate(shown[:k], start=1):
            if item in wanted:
                hits += 1
                first = first or rank
                dcg += 1 / math.log2(rank + 1)
                precisions += hits / rank
        if hits:
            possible = min(k, len(wanted))
            best = sum(1 / math.log2(rank + 1) for rank in range(1, possible + 1))
            found[f"hit_rate@{k}"] = 1.0
            found[f"precision@{k}"] = hits / k
            found[f"recall@{k}"] = hits / len(wanted)
            found[f"mrr@{k}"] = 1 / first
            found[f"map@{k}"] = precisions / possible
            found[f"ndcg@{k}"] = dcg / best
    return found


class Loop:
    """The loop written by hand: sums of floats by metric."""

    def __init__(self, names: Sequence[str]) -> None:
        self.lists, self._sums = 0, dict.fromkeys(names, 0.0)
        self._cutoffs = sorted({int(name.partition("@")[2]) for name in names})

    def update(self, shown: Sequence[Any], acts: Sequence[Any]) -> None:
        self.lists += 1
        found = values(shown, acts, self._cutoffs)
        for name in self._sums:
            self._sums[name] += found.get(name, 0.0)

    def read(self, name: str) -> float:
        return self._sums[name] / self.lists
