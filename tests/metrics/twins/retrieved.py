import math
from collections.abc import Sequence
from typing import Any

from tests.metrics.preparation import Reader, Shown


def retrieved(events: Sequence[Shown], k: int | None, **reading: Any) -> float:
    """How many items stand in the lists."""
    outcomes = Reader(k, **reading).outcomes(events)
    return float(sum(len(outcome.shown) for outcome in outcomes)) if events else math.nan
