from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from tests.metrics.confusion import table
from tests.metrics.preparation import Id, Shown, by_type, over_events


@by_type
def fallout(
    events: Sequence[Shown],
    k: int | None,
    *,
    catalog: frozenset[Id],
    unknown: str = "ignore",
    **how: Any,
) -> float:
    """False positives over all negatives; averaged over lists."""

    def per_event(event: Shown) -> Fraction | None:
        _, fp, _, tn = table(event, k, catalog, unknown)
        return Fraction(fp, fp + tn) if tn >= 0 and fp + tn else None

    return over_events([per_event(event) for event in events], events, **how)
