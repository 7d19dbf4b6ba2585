import math
from collections.abc import Sequence
from typing import Any

from tests.metrics.gains import discounted
from tests.metrics.preparation import Shown, over_lists


def dcg(
    events: Sequence[Shown],
    k: int | None,
    *,
    gain: str = "linear",
    discount_by: str = "log2",
    base: float = 2.0,
    empty: str = "zero",
    **how: Any,
) -> float:
    """Worth of each hit over its discount, summed; averaged over lists."""
    return over_lists(
        events,
        k,
        lambda outcome: math.log2(base) * math.fsum(discounted(outcome.hits, gain, discount_by)),
        empty=empty,
        **how,
    )
