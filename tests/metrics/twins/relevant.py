import math
from collections.abc import Sequence
from typing import Any

from tests.metrics.preparation import Reader, Shown


def relevant(events: Sequence[Shown], k: int | None, **reading: Any) -> float:
    """How many relevant items there are."""
    outcomes = Reader(k, **reading).outcomes(events)
    return float(sum(outcome.interacted for outcome in outcomes)) if events else math.nan
