import math
from collections.abc import Sequence
from typing import Any

from tests.metrics.preparation import Outcome, Reader, Shown, mean_over_lists


def ndcg(
    events: Sequence[Shown],
    k: int | None,
    *,
    gain: str = "linear",
    empty: str = "skip",
    **reading: Any,
) -> float:
    """DCG of the list over DCG of the relevant items in their best order; averaged over lists."""

    def worth(found: float) -> float:
        if gain == "exp2":
            return math.expm1(min(found, 1000.0) * math.log(2))
        return float(found) if gain == "linear" else 1.0

    def discounted(ranked: Sequence[tuple[int, float]]) -> float:
        return math.fsum(worth(found) / math.log2(rank + 1) for rank, found in ranked)

    def per_list(outcome: Outcome) -> float:
        best = list(enumerate(outcome.gains[:k], start=1))
        return discounted(outcome.hits) / discounted(best)

    return mean_over_lists(Reader(k, **reading).outcomes(events), empty, per_list)
