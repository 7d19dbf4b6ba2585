"""Cost per user in streameval and other systems, for the same events and eighteen numbers.

The extra `bench` installs the systems; the output names those that are missing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from importlib.metadata import version
from importlib.util import find_spec

import numpy as np

from streameval import Accumulator, Columns, Event
from tests.benchmarks import traffic
from tests.benchmarks.peer_systems import ABSENT, CUTOFFS, PEERS, K, Task, Values, number
from tests.benchmarks.timing import best_of

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
    for name in [*PEERS, *ABSENT]:
        if name not in here:
            print(
                f"{name:>30}: {(find_spec(_package(name)) and ABSENT.get(name)) or 'not installed'}"
            )


def _events(events: Sequence[Event]) -> Task:
    def task() -> Values:
        accumulator = Accumulator(*TEXTS)
        accumulator.update_many(list(events))
        return {text: reading.value for text, reading in accumulator.compute().items()}

    return task


def _columns(events: Sequence[Event]) -> Task:
    """Matrices of integer ids, without Python objects per event."""
    lengths = [len(event.interactions) for event in events]
    acts = [number(item) for event in events for item in event.interactions]
    columns = Columns(
        recommendations=np.array([list(map(number, e.recommendations)) for e in events]),
        interactions=(np.array(acts), np.concatenate(([0], np.cumsum(lengths)))),
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
