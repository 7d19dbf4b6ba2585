from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from tests.metrics.preparation import Outcome, Reader, Shown, mean_over_lists


def precision(
    events: Sequence[Shown],
    k: int | None,
    *,
    denominator: str = "k",
    empty: str = "zero",
    **reading: Any,
) -> float:
    """Hits over k, or over the items there are; averaged over lists."""

    def per_list(outcome: Outcome) -> Fraction:
        items = k if k is not None and denominator == "k" else outcome.length
        return Fraction(len(outcome.hits), items) if items else Fraction(0)

    return mean_over_lists(Reader(k, **reading).outcomes(events), empty, per_list)
