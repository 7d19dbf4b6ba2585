from collections.abc import Mapping, Sequence
from typing import Any

from tests.metrics.preparation import Id, Shown, over_events, rows_read
from tests.metrics.summaries import mean


def average_popularity(
    events: Sequence[Shown],
    k: int | None,
    *,
    popularity: tuple[Mapping[Id, float], float],
    unit: str = "users",
    repeats: str = "every",
    rows: int = 0,
    **how: Any,
) -> float:
    """Users of an item, averaged over the items of a list and then over lists."""
    counts, users = popularity
    whole = users if unit == "share" else 1

    def per_event(event: Shown) -> float | None:
        items = rows_read(event.recommendations, k, repeats, rows)
        return mean([counts.get(item, 0) / whole for item in items]) if items else None

    return over_events([per_event(event) for event in events], events, **how)
