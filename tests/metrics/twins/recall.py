from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from tests.metrics.preparation import Outcome, Shown, fraction, over_lists


def recall(
    events: Sequence[Shown],
    k: int | None,
    *,
    denominator: str = "interacted",
    empty: str = "skip",
    **how: Any,
) -> float:
    """Hits over the items interacted with; averaged over lists."""

    def per_list(outcome: Outcome) -> Fraction:
        wanted = outcome.interacted
        return fraction(len(outcome.hits), min(k or wanted, wanted) if most else wanted)

    most = denominator == "ideal"
    return over_lists(events, k, per_list, empty=empty, **how)
