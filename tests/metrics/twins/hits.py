import math
from collections.abc import Sequence
from typing import Any

from tests.metrics.preparation import Reader, Shown


def hits(events: Sequence[Shown], k: int | None, **reading: Any) -> float:
    """How many hits there are."""
    outcomes = Reader(k, **reading).outcomes(events)
    return float(sum(len(outcome.hits) for outcome in outcomes)) if events else math.nan
