import math
from collections.abc import Sequence
from typing import Any

from tests.metrics.preparation import Reader, Shown


def ctr(events: Sequence[Shown], k: int | None, **reading: Any) -> float:
    """All hits over all items shown."""
    outcomes = Reader(k, **reading).outcomes(events)
    shown = sum(len(outcome.shown) for outcome in outcomes)
    return sum(len(outcome.hits) for outcome in outcomes) / shown if shown else math.nan
