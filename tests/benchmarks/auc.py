"""Error, bounds and size of the auc of a million scores."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from streameval import Accumulator, Batch

SCORES = 1_000_000
LIST = 100
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


def main() -> None:
    """Print them for several distributions of scores."""
    for name, scores, positive in _shapes():
        accumulator = _counted(scores, positive)
        reading, exact = accumulator.read("auc"), _exact(scores, positive)
        low, high = reading.low or reading.value, reading.high or reading.value
        kept = json.dumps(accumulator.state_dict(), separators=(",", ":"))
        print(
            f"{name:>24}: auc {exact:.9f}, off by {abs(reading.value - exact):.1e}, certainly "
            f"within {max(high - reading.value, reading.value - low):.1e}"
            f"{'' if low <= exact <= high else ' NOT WITHIN ITS BOUNDS'}, "
            f"saved {len(kept) / 1e6:.2f} MB, in memory {_held(accumulator) / 1e6:.2f} MB"
        )


def _shapes() -> Iterator[tuple[str, Floats, Flags]]:
    draw = np.random.default_rng(1)
    uniform = draw.random(SCORES)
    yield "uniform", uniform, draw.random(SCORES) < uniform
    beta = draw.beta(2.0, 5.0, SCORES)
    yield "Beta(2, 5)", beta, draw.random(SCORES) < beta
    rate = np.exp(draw.uniform(math.log(0.001), math.log(0.05), SCORES))
    clicked = draw.random(SCORES) < rate
    yield "click model, .001 to .05", rate, clicked
    yield "the same near 1", 1.0 - rate, ~clicked
    crowded = draw.random(SCORES) * 1e-6
    outcome = draw.random(SCORES) < 0.2 + 0.6 * crowded * 1e6
    yield "crowded near 0", crowded, outcome
    yield "crowded near 1", 1.0 - crowded, ~outcome


def _counted(scores: Floats, positive: Flags) -> Accumulator:
    accumulator, items = Accumulator("auc"), list(range(LIST))
    for start in range(0, SCORES, 100 * LIST):
        rows = slice(start, start + 100 * LIST)
        flags = positive[rows].reshape(-1, LIST)
        accumulator.update_many(
            Batch(
                recommendations=[items] * len(flags),
                interactions=[np.flatnonzero(row).tolist() for row in flags],
                scores=scores[rows].reshape(-1, LIST).tolist(),
            )
        )
    return accumulator


def _exact(scores: Floats, positive: Flags) -> float:
    """The exact value from integer counts of ordered pairs; a tie is half a pair."""
    values, place = np.unique(scores, return_inverse=True)
    of_each = [np.bincount(place[flags], minlength=values.size) for flags in (positive, ~positive)]
    positives, negatives = (column.tolist() for column in of_each)
    below = twice = 0
    for p, n in zip(positives, negatives, strict=True):
        twice += p * (2 * below + n)
        below += n
    return float(twice / (2 * sum(positives) * sum(negatives)))


def _held(accumulator: Accumulator) -> int:
    """Bytes of the columns of scores, eight per number."""
    columns: Sequence[Sequence[Sequence[int]]] = [
        statistic["columns"] for statistic in accumulator.state_dict()["statistics"]
    ]
    return 8 * sum(map(len, chain.from_iterable(columns)))
