from collections.abc import Sequence
from typing import Any

from tests.metrics.gains import worth
from tests.metrics.preparation import Outcome, Shown, over_lists


def err(
    events: Sequence[Shown],
    k: int | None,
    *,
    max_grade: float = 1.0,
    empty: str = "zero",
    **how: Any,
) -> float:
    """1 / rank where the user is satisfied, times the chance to get there and to be satisfied."""

    def per_list(outcome: Outcome) -> float:
        value, there = 0.0, 1.0
        for rank, gain in outcome.hits:
            satisfied = worth(min(gain, max_grade), "exp2") / 2**max_grade
            value += there * satisfied / rank
            there *= 1 - satisfied
        return value

    return over_lists(events, k, per_list, empty=empty, **how)
