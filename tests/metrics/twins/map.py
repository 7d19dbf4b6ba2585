from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from tests.metrics.preparation import Outcome, Reader, Shown, mean_over_lists


def map_(
    events: Sequence[Shown],
    k: int | None,
    *,
    denominator: str = "ideal",
    empty: str = "skip",
    **reading: Any,
) -> float:
    """Average precision: precision at each hit, over the hits there could be; averaged."""

    def per_list(outcome: Outcome) -> Fraction:
        possible = len(outcome.gains) if k is None else min(len(outcome.gains), k)
        if k is not None and denominator == "k":
            possible = k
        precisions = [Fraction(hits, rank) for hits, (rank, _) in enumerate(outcome.hits, start=1)]
        return sum(precisions, Fraction(0)) / possible

    return mean_over_lists(Reader(k, **reading).outcomes(events), empty, per_list)
