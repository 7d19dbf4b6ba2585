from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from tests.metrics.preparation import Shown, by_type, over_events
from tests.metrics.samples import samples_of


@by_type
def mae(events: Sequence[Shown], _: int | None, **how: Any) -> float:
    """|score - rating| of every rated item; averaged."""
    pairs = [pair for event in events for pair in samples_of(event) if pair[1] is not None]
    errors = [abs(Fraction(score) - Fraction(rating or 0)) for score, rating in pairs]
    return over_events(errors, events, **how)
