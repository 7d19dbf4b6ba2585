from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from tests.metrics.preparation import Shown, by_type, good, over_events, ranked


@by_type
def serendipity(
    events: Sequence[Shown], k: int | None, *, denominator: str = "k", **how: Any
) -> float:
    """Useful items without those that a baseline shows too, over k; averaged over lists."""

    def per_event(event: Shown) -> Fraction | None:
        if event.baseline is None:
            return None
        items = ranked(event, k)
        over = len(items) if k is None or denominator == "length" else k
        useful = ({*items} & good(event)) - {*event.baseline[:k]}
        return Fraction(len(useful), over) if over else Fraction(0)

    return over_events([per_event(event) for event in events], events, **how)
