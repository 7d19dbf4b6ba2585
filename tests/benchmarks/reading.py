"""Cost of reading after each event, beside a loop written by hand, river and torchmetrics.

The extra `bench` installs river, and `conformance` torchmetrics; the output names those missing.
"""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
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
            peers = [name for name in PEERS if names is THREE and every == 1 and find_spec(name)]
            tasks: dict[str, Callable[[], Counting]] = {
                "hand": partial(Loop, names),
                "streameval": partial(Accumulator, *names),
                **{name: PEERS[name] for name in peers},
            }
            times = _medians(tasks, events, names, every)
            reads = f"{len(names)} reads after each {every}" if every else "update alone"
            figures = (
                f"{name} {us:.2f} us ({us / times['hand']:.1f})" for name, us in times.items()
            )
            print(f"{kind}, {reads}: {', '.join(figures)}")
    for name in PEERS:
        if not find_spec(name):
            print(f"{name}: not installed")


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
    # A reading of torchmetrics takes time by all events before.
    measured = events[WARM + 10 :][: 20 if isinstance(counting, TorchMetrics) else None]
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


class River:
    """Running means of river, which has no ranking metrics: the values are those of the loop."""

    def __init__(self) -> None:
        mean = import_module("river.stats").Mean
        self._means = {name: mean() for name in THREE}

    def update(self, shown: Sequence[Any], acts: Sequence[Any]) -> None:
        found = values(shown, acts, (10,))
        for name, mean in self._means.items():
            mean.update(found.get(name, 0.0))

    def read(self, name: str) -> float:
        return float(self._means[name].get())


class TorchMetrics:
    """Retrieval metrics of torchmetrics: a query for each list, `compute` for each reading."""

    def __init__(self) -> None:
        self._torch, retrieval = map(import_module, ("torch", "torchmetrics.retrieval"))
        kinds = (retrieval.RetrievalHitRate, retrieval.RetrievalMRR)
        made = [*(kind(top_k=10) for kind in kinds), retrieval.RetrievalNormalizedDCG(top_k=10)]
        self._metrics, self._lists = dict(zip(THREE, made, strict=True)), 0

    def update(self, shown: Sequence[Any], acts: Sequence[Any]) -> None:
        torch, wanted, ranks = self._torch, set(acts), range(len(shown))
        target = torch.tensor([item in wanted for item in shown])
        scores = torch.tensor([1.0 / (1 + rank) for rank in ranks])
        query = torch.full((len(shown),), self._lists)
        self._lists += 1
        for one in self._metrics.values():
            one.update(scores, target, indexes=query)

    def read(self, name: str) -> float:
        return float(self._metrics[name].compute())


PEERS: dict[str, Callable[[], Counting]] = {"river": River, "torchmetrics": TorchMetrics}
