import math
from collections.abc import Sequence
from typing import Any

from tests.metrics.gains import worth
from tests.metrics.preparation import Shown, over_lists


def rbp(
    events: Sequence[Shown],
    k: int | None,
    *,
    p: float = 0.8,
    gain: str = "binary",
    max_grade: float = 1.0,
    empty: str = "zero",
    **how: Any,
) -> float:
    """Chance that the user looks at each hit, by what it is worth, over the items looked at."""

    def useful(found: float) -> float:
        return worth(min(found, max_grade), gain) / worth(max_grade, gain)

    return over_lists(
        events,
        k,
        lambda outcome: (
            (1 - p)
            * math.fsum(useful(found) * math.pow(p, rank - 1) for rank, found in outcome.hits)
        ),
        empty=empty,
        **how,
    )
