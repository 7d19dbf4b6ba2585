from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from tests.metrics.preparation import Shown, over_events, rows_read


def unexpectedness(
    events: Sequence[Shown],
    k: int | None,
    *,
    repeats: str = "every",
    rows: int = 0,
    missing: str = "skip",
    **how: Any,
) -> float:
    """1 minus the items that a baseline would have shown too, over k; averaged over lists."""

    def per_event(event: Shown) -> Fraction | None:
        if missing == "zero" and not event.baseline:
            return Fraction(0)
        if event.baseline is None:
            return None
        items = rows_read(event.recommendations, k, repeats, rows)
        closed = "every" if repeats == "every" else "compact_before_cut"
        both = set(items) & set(rows_read(event.baseline, k, closed, rows))
        return 1 - Fraction(len(both), k or len(items)) if items else Fraction(0)

    return over_events([per_event(event) for event in events], events, **how)
