"""Cost of a list as an event, in NumPy columns, and in an Arrow table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streameval import Accumulator, Columns, Event
from tests.benchmarks import traffic
from tests.benchmarks.timing import best_of

Parts: TypeAlias = Sequence[Columns | pa.Table | list[Event]]

EVENTS = 60_000
BATCH = 20_000
CUTOFFS = (5, 10, 20)
NAMES = ("hit_rate", "precision", "recall", "mrr", "map", "ndcg")


def main() -> None:
    """Print microseconds per list, and the speed-up over events."""
    for k in (20, 100):
        columns = [traffic.columns(BATCH, k, seed=part) for part in range(EVENTS // BATCH)]
        for exposures in (False, True):
            metrics = [f"{name}@{cut}" for name in NAMES for cut in (*CUTOFFS, k)]
            metrics += [f"distinct_items@{k}"] if exposures else []
            forms: dict[str, Parts] = {
                "events": _events(columns),
                "numpy": columns,
                "arrow": [_table(part) for part in columns],
            }
            best = best_of({form: _task(metrics, parts) for form, parts in forms.items()}, rounds=3)
            print(f"K={k:<3} {'with' if exposures else 'without'} exposures: {_shown(best)}")


def _shown(best: dict[str, float]) -> str:
    return ", ".join(
        f"{form} {seconds / EVENTS * 1e6:.2f} us per list ({best['events'] / seconds:.1f} times)"
        for form, seconds in best.items()
    )


def _task(metrics: list[str], parts: Parts) -> Callable[[], None]:
    def task() -> None:
        accumulator = Accumulator(*metrics)
        for part in parts:
            accumulator.update_many(part)
        accumulator.compute()

    return task


def _table(columns: Columns) -> pa.Table:
    values, offsets = columns.interactions
    shown = columns.recommendations
    return pa.table(
        {
            "recommendations": pa.FixedSizeListArray.from_arrays(shown.ravel(), shown.shape[1]),
            "interactions": pa.LargeListArray.from_arrays(offsets, values),
        }
    )


def _events(parts: list[Columns]) -> list[list[Event]]:
    return [
        [
            Event(recommendations=shown, interactions=acts.tolist())
            for shown, acts in zip(part.recommendations.tolist(), _split(part), strict=True)
        ]
        for part in parts
    ]


def _split(columns: Columns) -> list[npt.NDArray[np.int64]]:
    values, offsets = columns.interactions
    return np.split(values, offsets[1:-1])
