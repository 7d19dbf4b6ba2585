from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from tests.metrics.preparation import Outcome, Shown, over_lists


def roc_auc(events: Sequence[Shown], k: int | None, *, empty: str = "skip", **how: Any) -> float:
    """Pairs of a hit and another item above it, of all such pairs; averaged over lists."""

    def per_list(outcome: Outcome) -> Fraction:
        ranks = [rank for rank, _ in outcome.hits]
        above = sum(rank - place for place, rank in enumerate(ranks, start=1))
        pairs = len(ranks) * (outcome.length - len(ranks))
        if not ranks:
            return Fraction(0)
        return max(Fraction(0), 1 - Fraction(above, max(1, pairs)))

    return over_lists(events, k, per_list, empty=empty, **how)
