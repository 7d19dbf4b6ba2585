import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from tests.metrics.preparation import Outcome, Shown, over_lists


def gm_map(
    events: Sequence[Shown],
    k: int | None,
    *,
    denominator: str = "ideal",
    empty: str = "skip",
    **how: Any,
) -> float:
    """The product of average precisions, at least 1e-5 each, to the power of 1 / lists."""

    def per_list(outcome: Outcome) -> float:
        most = {"ideal": min(k or outcome.interacted, outcome.interacted), "k": k}
        possible = most.get(denominator) or outcome.interacted or 1
        found = [Fraction(hits, rank) for hits, (rank, _) in enumerate(outcome.hits, start=1)]
        return math.log(max(float(sum(found, Fraction(0)) / possible), 1e-5))

    return over_lists(events, k, per_list, empty=empty, of={"finish": math.exp}, **how)
