"""Cost per user in streameval and other systems, for the same events and eighteen numbers.

The extra `bench` installs the systems; the output names those that are missing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import TypeAlias

import numpy as np

from streameval import Accumulator, Columns, Event
from tests.benchmarks import traffic
from tests.benchmarks.timing import best_of

CUTOFFS = (5, 10, 20)
K = 20
USERS = 40_000
ROUNDS = 4
NAMES = ("hit_rate", "precision", "recall", "mrr", "map", "ndcg")
TEXTS = [f"{name}@{k}" for name in NAMES for k in CUTOFFS]
CLOSE = 1e-6


def main() -> None:
    """Print microseconds per user, the ratio to ours, and the number of values that agree."""
    events = traffic.offline(USERS, k=K)
    here = [name for name in PEERS if find_spec(_package(name))]
    tasks = {"events": _events(events), "columns": _columns(events)}
    tasks |= {name: PEERS[name](events) for name in here}
    # Elapsed time, because one system uses several threads.
    best = best_of(tasks, ROUNDS, time.perf_counter)
    print(f"{USERS:,} users, K={K}, 1 to 10 interactions, {len(TEXTS)} numbers, best of {ROUNDS}")
    for name, seconds in best.items():
        ratios = [f"{seconds / best[ours]:7.1f} times {ours}" for ours in ("events", "columns")]
        print(f"{_named(name):>30}: {seconds / USERS * 1e6:8.2f} us per user, {', '.join(ratios)}")
    for name in here:
        print(f"{name:>30}: {_compared(tasks[name](), events)}")
    for name in PEERS:
        if name not in here:
            print(f"{name:>30}: not installed")


def _events(events: Sequence[Event]) -> Task:
    def task() -> Values:
        accumulator = Accumulator(*TEXTS)
        accumulator.update_many(list(events))
        return {text: reading.value for text, reading in accumulator.compute().items()}

    return task


def _columns(events: Sequence[Event]) -> Task:
    """Matrices of integer ids, without Python objects per event."""
    lengths = [len(event.interactions) for event in events]
    interactions = [number(item) for event in events for item in event.interactions]
    columns = Columns(
        recommendations=np.array([list(map(number, e.recommendations)) for e in events]),
        interactions=(np.array(interactions), np.concatenate(([0], np.cumsum(lengths)))),
    )

    def task() -> Values:
        accumulator = Accumulator(*TEXTS)
        accumulator.update_many(columns)
        return {text: reading.value for text, reading in accumulator.compute().items()}

    return task


def _compared(theirs: Values, events: Sequence[Event]) -> str:
    accumulator = Accumulator(*theirs)
    accumulator.update_many(list(events))
    ours = {text: accumulator.read(text).value for text in theirs}
    apart = {text: abs(ours[text] - value) for text, value in theirs.items()}
    unlike = [
        f"{text} {theirs[text]:.6f} (here {ours[text]:.6f})"
        for text, gap in apart.items()
        if gap > CLOSE
    ]
    agreeing = max((gap for gap in apart.values() if gap <= CLOSE), default=math.nan)
    agreed = f"{len(apart) - len(unlike)} of {len(apart)} values agree to {agreeing:.0e}"
    return "; ".join([agreed, *unlike])


def _named(name: str) -> str:
    if name not in PEERS:
        return f"streameval {name}"
    package = _package(name)
    distribution = {"pytrec_eval": "pytrec-eval-terrier"}.get(package, package)
    return name.replace(package, f"{package} {version(distribution)}")


def _package(name: str) -> str:
    return name.partition(" ")[0]


Values: TypeAlias = Mapping[str, float]
Task: TypeAlias = Callable[[], Values]
Judged: TypeAlias = dict[str, dict[str, int]]
Scored: TypeAlias = dict[str, dict[str, float]]


def pytrec_eval(events: Sequence[Event]) -> Task:
    module = import_module("pytrec_eval")
    cuts = ",".join(map(str, CUTOFFS))
    names = ("success", "P", "recall", "map_cut", "ndcg_cut")
    evaluator = module.RelevanceEvaluator(
        _judged(events), {"recip_rank", *(f"{name}.{cuts}" for name in names)}
    )
    run = _scored(events)

    def task() -> Values:
        by_query = list(evaluator.evaluate(run).values())
        sums = {name: sum(query_values[name] for query_values in by_query) for name in by_query[0]}
        return {_trec_text(name): total / len(by_query) for name, total in sums.items()}

    return task


def ranx(events: Sequence[Event]) -> Task:
    module = import_module("ranx")
    names = ("hit_rate", "precision", "recall", "mrr", "map", "ndcg")
    metrics = [f"{name}@{k}" for name in names for k in CUTOFFS]
    qrels, run = module.Qrels(_judged(events)), module.Run(_scored(events))

    def task() -> Values:
        values = module.evaluate(qrels, run, metrics, make_comparable=False)
        return {text.replace("map@", "trec:map@"): float(values[text]) for text in metrics}

    task()  # the first call compiles
    return task


def rectools(events: Sequence[Event], item: Callable[[object], object] = str) -> Task:
    pandas, metrics = import_module("pandas"), _rectools_metrics()
    recommended = [
        (user, item(recommended), rank)
        for user, event in enumerate(events)
        for rank, recommended in enumerate(event.recommendations, 1)
    ]
    interactions = [
        (user, item(act)) for user, event in enumerate(events) for act in event.interactions
    ]
    reco = pandas.DataFrame(recommended, columns=["user_id", "item_id", "rank"])
    truth = pandas.DataFrame(interactions, columns=["user_id", "item_id"])
    calculate = import_module("rectools.metrics").calc_metrics
    return lambda: dict(calculate(metrics, reco=reco, interactions=truth))


def rectools_of_integers(events: Sequence[Event]) -> Task:
    return rectools(events, number)


PEERS: Mapping[str, Callable[[Sequence[Event]], Task]] = {
    "pytrec_eval": pytrec_eval,
    "rectools": rectools,
    "rectools of integers": rectools_of_integers,
    "ranx": ranx,
}
"""System -> its task, in its fastest way; the input, of its own kind, is built before."""


def _judged(events: Sequence[Event]) -> Judged:
    return {
        str(user): {str(item): 1 for item in event.interactions}
        for user, event in enumerate(events)
    }


def _scored(events: Sequence[Event]) -> Scored:
    return {
        str(user): {str(item): float(K - row) for row, item in enumerate(event.recommendations)}
        for user, event in enumerate(events)
    }


def number(item: object) -> int:
    """The number in the id of an item."""
    return int(str(item).removeprefix("item-"))


def _rectools_metrics() -> Mapping[str, object]:
    module = import_module("rectools.metrics")
    made = {
        "hit_rate": module.HitRate,
        "precision": module.Precision,
        "recall": module.Recall,
        "mrr": module.MRR,
        "trec:map": module.MAP,
        "ndcg": partial(module.NDCG, divide_by_achievable=True),
    }
    return {f"{name}@{k}": make(k=k) for name, make in made.items() for k in CUTOFFS}


def _trec_text(name: str) -> str:
    return "trec:mrr" if name == "recip_rank" else f"trec:{name}"
