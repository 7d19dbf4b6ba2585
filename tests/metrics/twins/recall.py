from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from tests.metrics.preparation import Outcome, Reader, Shown, mean_over_lists


def recall(events: Sequence[Shown], k: int | None, *, empty: str = "skip", **reading: Any) -> float:
    """Hits over the items interacted with; averaged over lists."""

    def per_list(outcome: Outcome) -> Fraction:
        return Fraction(len(outcome.hits), len(outcome.gains))

    return mean_over_lists(Reader(k, **reading).outcomes(events), empty, per_list)
