import math
from collections.abc import Sequence
from typing import Any

from tests.metrics.preparation import Outcome, Reader, Shown, mean_over_lists


def dcg(
    events: Sequence[Shown],
    k: int | None,
    *,
    gain: str = "linear",
    empty: str = "zero",
    **reading: Any,
) -> float:
    """Worth of each hit over log2(rank + 1), summed; averaged over lists."""

    def worth(found: float) -> float:
        if gain == "exp2":
            return math.expm1(min(found, 1000.0) * math.log(2))
        return float(found) if gain == "linear" else 1.0

    def per_list(outcome: Outcome) -> float:
        return math.fsum(worth(found) / math.log2(rank + 1) for rank, found in outcome.hits)

    return mean_over_lists(Reader(k, **reading).outcomes(events), empty, per_list)
