import math
from collections.abc import Sequence
from typing import Any

from tests.metrics.preparation import Shown, over_lists


def rbp(
    events: Sequence[Shown], k: int | None, *, p: float = 0.8, empty: str = "zero", **how: Any
) -> float:
    """Chance that the user looks at each hit, over the items a user looks at."""
    return over_lists(
        events,
        k,
        lambda outcome: (1 - p) * math.fsum(math.pow(p, rank - 1) for rank, _ in outcome.hits),
        empty=empty,
        **how,
    )
