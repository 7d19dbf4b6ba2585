from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from tests.metrics.preparation import Id, Shown, over_events, rows_read


def tail_percentage(
    events: Sequence[Shown],
    k: int | None,
    *,
    popularity: tuple[Mapping[Id, float], float],
    tail: float = 0.8,
    repeats: str = "every",
    rows: int = 0,
    **how: Any,
) -> float:
    """Share of a list's items among the least popular ones; averaged over lists."""
    counts, _ = popularity
    least = sorted(counts.values())[: max(1, int(Fraction(str(tail)) * len(counts)))]

    def per_event(event: Shown) -> Fraction | None:
        items = rows_read(event.recommendations, k, repeats, rows)
        rare = [item for item in items if counts.get(item, 0) <= max(least)]
        return Fraction(len(rare), len(items)) if items else None

    return over_events([per_event(event) for event in events], events, **how)
