import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from tests.metrics.preparation import Shown, by_type, over_events
from tests.metrics.samples import samples_of


@by_type
def rmse(events: Sequence[Shown], _: int | None, **how: Any) -> float:
    """Root of the mean of (score - rating)^2 of every rated item."""
    pairs = [pair for event in events for pair in samples_of(event) if pair[1] is not None]
    errors = [(Fraction(score) - Fraction(rating or 0)) ** 2 for score, rating in pairs]
    return over_events(errors, events, finish=math.sqrt, **how)
