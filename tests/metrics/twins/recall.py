from collections.abc import Sequence
from typing import Any

from tests.metrics.preparation import Shown, fraction, over_lists


def recall(events: Sequence[Shown], k: int | None, *, empty: str = "skip", **how: Any) -> float:
    """Hits over the items interacted with; averaged over lists."""
    return over_lists(
        events,
        k,
        lambda outcome: fraction(len(outcome.hits), outcome.interacted),
        empty=empty,
        **how,
    )
