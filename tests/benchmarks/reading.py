"""Cost of reading after each event, beside a loop written by hand and other systems.

The extras `bench` and `conformance` install the systems; the output names those that are missing.
"""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, Protocol, TypeAlias

from streameval import Accumulator
from tests.benchmarks import traffic
from tests.benchmarks.timing import range_of

THREE = ("hit_rate@10", "mrr@10", "ndcg@10")
NAMES = ("hit_rate", "precision", "recall", "mrr", "map", "ndcg")
EIGHTEEN = tuple(f"{name}@{k}" for name in NAMES for k in (5, 10, 20))
WARM, EVENTS, ROUNDS = 600, 2_000, 5
COLD = 1_500
"""Events that are read after from the first one on."""

FEW = 20
"""Events of a system that computes anew from all lists it keeps, after as many that warm up."""

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
            if names is THREE and every <= FEW // 2:
                tasks |= {name: partial(peer, names) for name, peer in PEERS.items() if _has(name)}
            times = _medians(tasks, events, names, every)
            reads = f"{len(names)} reads after each {every}" if every else "update alone"
            figures = (
                f"{name} {us:.2f} us ({us / times['hand']:.1f})" for name, us in times.items()
            )
            print(f"{kind}, {reads}: {', '.join(figures)}")
    for how, read_each in _COLD.items():
        cold, warm = zip(*(_cold_and_warm(read_each) for _ in range(ROUNDS)), strict=True)
        print(f"the first {COLD:,} events, each with {how}: {range_of(cold)} times the loop")
        print(f"the events after them, each with {how}: {range_of(warm)} times the loop")
    for name in PEERS:
        print(f"{name}: {version(name) if _has(name) else 'not installed'}")


def _has(package: str) -> bool:
    return find_spec(package) is not None


def _medians(
    tasks: dict[str, Callable[[], Counting]], events: Pairs, names: Sequence[str], every: int
) -> dict[str, float]:
    taken: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(ROUNDS):
        for name, make in tasks.items():
            most = FEW if name == "torchmetrics" else EVENTS
            taken[name].append(_seconds(make(), events[: WARM + 10 + most], names, every))
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


def _three_reads(accumulator: Accumulator) -> None:
    for name in THREE:
        accumulator.read(name)


_COLD: dict[str, Callable[[Accumulator], object]] = {
    "three reads": _three_reads,
    "compute()": Accumulator.compute,
}


def _cold_and_warm(reads: Callable[[Accumulator], object]) -> list[float]:
    """Time relative to the loop: of a new accumulator's first events, and of those after them."""
    loop, accumulator, ratios = Loop(THREE), Accumulator(*THREE), []
    for events in (_clicked()[:COLD], _clicked()[COLD:]):
        start = time.process_time()
        for pair in events:
            loop.update(*pair)
            for name in THREE:
                loop.read(name)
        middle = time.process_time()
        for pair in events:
            accumulator.update(*pair)
            reads(accumulator)
        ratios.append((time.process_time() - middle) / (middle - start))
    return ratios


def _clicked() -> Pairs:
    draw = random.Random(2)
    recommended = [event.recommendations for event in traffic.clicks(WARM + EVENTS)]
    return [(items, [draw.choice(items)]) for items in recommended]


def _offline() -> Pairs:
    return [
        (event.recommendations, list(event.interactions))
        for event in traffic.offline(WARM + EVENTS)
    ]


def values(shown: Sequence[Any], acts: Sequence[Any], cutoffs: Sequence[int]) -> dict[str, float]:
    """The metrics of one list with a hit, as somebody writes them for a loop."""
    relevant, result = set(acts), {}
    for k in cutoffs:
        hits, first, dcg, precisions = 0, 0, 0.0, 0.0
        for rank, item in enumerate(shown[:k], start=1):
            if item in relevant:
                hits += 1
                first = first or rank
                dcg += 1 / math.log2(rank + 1)
                precisions += hits / rank
        if hits:
            possible = min(k, len(relevant))
            best = sum(1 / math.log2(rank + 1) for rank in range(1, possible + 1))
            result[f"hit_rate@{k}"] = 1.0
            result[f"precision@{k}"] = hits / k
            result[f"recall@{k}"] = hits / len(relevant)
            result[f"mrr@{k}"] = 1 / first
            result[f"map@{k}"] = precisions / possible
            result[f"ndcg@{k}"] = dcg / best
    return result


class Loop:
    """The loop written by hand: sums of floats by metric."""

    def __init__(self, names: Sequence[str]) -> None:
        self.lists, self._sums = 0, dict.fromkeys(names, 0.0)
        self._cutoffs = sorted({int(name.partition("@")[2]) for name in names})

    def update(self, shown: Sequence[Any], acts: Sequence[Any]) -> None:
        self.lists += 1
        result = values(shown, acts, self._cutoffs)
        for name in self._sums:
            self._sums[name] += result.get(name, 0.0)

    def read(self, name: str) -> float:
        return self._sums[name] / self.lists


class RiverMeans:
    """River has no metrics of lists: a mean of it for each value that is written by hand."""

    def __init__(self, names: Sequence[str]) -> None:
        mean = import_module("river.stats").Mean
        self._means = {name: mean() for name in names}
        self._cutoffs = sorted({int(name.partition("@")[2]) for name in names})

    def update(self, shown: Sequence[Any], acts: Sequence[Any]) -> None:
        result = values(shown, acts, self._cutoffs)
        for name, mean in self._means.items():
            mean.update(result.get(name, 0.0))

    def read(self, name: str) -> float:
        return float(self._means[name].get())


class TorchMetrics:
    """The retrieval metrics of torchmetrics, which keep each list as tensors."""

    def __init__(self, names: Sequence[str]) -> None:
        retrieval, self._torch = import_module("torchmetrics.retrieval"), import_module("torch")
        kinds = {
            "hit_rate": "RetrievalHitRate",
            "mrr": "RetrievalMRR",
            "ndcg": "RetrievalNormalizedDCG",
        }
        self._metrics = {}
        for name in names:
            kind, _, k = name.partition("@")
            self._metrics[name] = getattr(retrieval, kinds[kind])(top_k=int(k))
        self._lists = 0

    def update(self, shown: Sequence[Any], acts: Sequence[Any]) -> None:
        wanted, tensor = set(acts), self._torch.tensor
        scores = tensor([float(-rank) for rank in range(len(shown))])
        relevant = tensor([item in wanted for item in shown])
        numbers = self._torch.full((len(shown),), self._lists)
        for metric in self._metrics.values():
            metric.update(scores, relevant, indexes=numbers)
        self._lists += 1

    def read(self, name: str) -> float:
        return float(self._metrics[name].compute())


PEERS: dict[str, Callable[[Sequence[str]], Counting]] = {
    "river": RiverMeans,
    "torchmetrics": TorchMetrics,
}
"""Package -> what counts and reads with it."""
