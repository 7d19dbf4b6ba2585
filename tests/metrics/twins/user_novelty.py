from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from tests.metrics.preparation import Shown, over_events, ranked


def user_novelty(events: Sequence[Shown], k: int | None, **how: Any) -> float:
    """Items that are not in the history, over the items there are; averaged over lists."""

    def per_event(event: Shown) -> Fraction | None:
        items = ranked(event, k)
        if event.history is None or not items:
            return None
        return Fraction(sum(item not in event.history for item in items), len(items))

    return over_events([per_event(event) for event in events], events, **how)
