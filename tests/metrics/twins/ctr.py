import math
from collections.abc import Sequence
from typing import Any

from tests.metrics.preparation import Reader, Shown


def ctr(events: Sequence[Shown], k: int | None, *, rank: int = 0, **reading: Any) -> float:
    """All hits over all items shown, or those at one rank."""
    outcomes = Reader(k, **reading).outcomes(events)
    shown = [at for outcome in outcomes for at in outcome.shown if rank in (0, at)]
    hits = [at for outcome in outcomes for at, _ in outcome.hits if rank in (0, at)]
    return len(hits) / len(shown) if shown else math.nan
