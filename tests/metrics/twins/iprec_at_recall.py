from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from tests.metrics.preparation import Outcome, Shown, over_lists


def iprec_at_recall(
    events: Sequence[Shown],
    k: int | None,
    *,
    recall: float = 0.5,
    reached: str = "nearest",
    empty: str = "skip",
    **how: Any,
) -> float:
    """The best precision at any hit from the one on that reaches the recall; averaged."""

    def per_list(outcome: Outcome) -> Fraction:
        least = int(recall * outcome.interacted + (0.9 if reached == "up" else 0.5))
        found = [Fraction(hits, rank) for hits, (rank, _) in enumerate(outcome.hits, start=1)]
        return max(found[max(0, least - 1) :], default=Fraction(0))

    return over_lists(events, k, per_list, empty=empty, **how)
