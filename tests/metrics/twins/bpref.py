from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from tests.metrics.preparation import Shown, by_type, gains_of, over_events, ranked


@by_type
def bpref(
    events: Sequence[Shown],
    k: int | None,
    *,
    min_gain: float = 0.0,
    empty: str = "skip",
    **how: Any,
) -> float:
    """For each relevant item the share of the first R others that stand below it; averaged."""

    def per_event(event: Shown) -> Fraction | None:
        gains = gains_of(event.interactions)
        good = {item for item, gain in gains.items() if gain > 0 and gain >= min_gain}
        bad = {item for item, gain in gains.items() if gain >= 0} - good
        if not good:
            return Fraction(0) if empty == "zero" else None
        judged = [item for item in ranked(event, k) if item in good | bad]
        kept = Fraction(0)
        for place, item in enumerate(judged):
            if item in good:
                above = len(bad & {*judged[:place]})
                kept += 1 - Fraction(min(above, len(good)), min(len(bad), len(good)) or 1)
        return kept / len(good)

    return over_events([per_event(event) for event in events], events, **how)
