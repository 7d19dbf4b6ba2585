import math
from collections.abc import Sequence
from typing import Any

from tests.metrics.gains import discounted, ranked
from tests.metrics.preparation import Shown, over_lists


def ideal_dcg(
    events: Sequence[Shown],
    k: int | None,
    *,
    gain: str = "linear",
    discount_by: str = "log2",
    base: float = 2.0,
    empty: str = "skip",
    **how: Any,
) -> float:
    """DCG of the relevant items in their best order; averaged over lists."""
    return over_lists(
        events,
        k,
        lambda outcome: (
            math.log2(base) * math.fsum(discounted(ranked(outcome.gains[:k]), gain, discount_by))
        ),
        empty=empty,
        **how,
    )
