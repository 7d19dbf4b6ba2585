from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from tests.metrics.preparation import Shown, by_type, over_events, ranked


@by_type
def judged(events: Sequence[Shown], k: int | None, *, denominator: str = "k", **how: Any) -> float:
    """Items that anything is known of, over k or the items there are; averaged over lists."""

    def per_event(event: Shown) -> Fraction | None:
        items = ranked(event, k)
        over = len(items) if k is None or denominator == "length" else k
        both = {*items} & {*event.interactions}
        return Fraction(len(both), over) if over else None

    return over_events([per_event(event) for event in events], events, **how)
