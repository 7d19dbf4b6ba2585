from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from tests.metrics.preparation import Outcome, Shown, over_lists


def map_(
    events: Sequence[Shown],
    k: int | None,
    *,
    denominator: str = "ideal",
    normalizer: int = 0,
    empty: str = "skip",
    **how: Any,
) -> float:
    """Average precision: precision at each hit, over the hits there could be; averaged."""

    def per_list(outcome: Outcome) -> Fraction:
        cut = normalizer or k
        possible = outcome.interacted
        if cut and denominator != "interacted":
            possible = cut if denominator == "k" else min(cut, possible)
        if denominator == "shown":
            possible = min(possible, outcome.length)
        if denominator == "hits":
            possible = len(outcome.hits)
        precisions = [Fraction(hits, rank) for hits, (rank, _) in enumerate(outcome.hits, start=1)]
        return sum(precisions, Fraction(0)) / max(1, possible)

    return over_lists(events, k, per_list, empty=empty, **how)
