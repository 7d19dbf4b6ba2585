import math
from collections.abc import Sequence
from typing import Any

from tests.metrics.preparation import Shown, over_lists


def value_per_list(
    events: Sequence[Shown], k: int | None, *, empty: str = "zero", **how: Any
) -> float:
    """Sum of the gains of the hits; averaged over lists."""
    return over_lists(
        events,
        k,
        lambda outcome: math.fsum(min(gain, 2.0**1000) for _, gain in outcome.hits),
        empty=empty,
        **how,
    )
