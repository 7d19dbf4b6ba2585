import math
from collections.abc import Mapping, Sequence
from typing import Any

from tests.metrics.preparation import Id, Shown, over_events, rows_read

Popular = tuple[Mapping[Id, float], float]


def novelty(
    events: Sequence[Shown],
    k: int | None,
    *,
    popularity: Popular,
    denominator: str = "length",
    unit: str = "bits",
    cold: str = "most",
    cut: bool = True,
    repeats: str = "every",
    rows: int = 0,
    **how: Any,
) -> float:
    """-log2(users of the item / users), averaged over the items of a list and then over lists."""
    counts, users = popularity

    def bits(item: Id) -> float:
        found = counts.get(item, 0) or (1 if cold == "most" else users)
        return math.log2(users / found) / (math.log2(users) if unit == "share" else 1)

    def per_event(event: Shown) -> float | None:
        items = rows_read(event.recommendations, k if cut else None, repeats, rows)
        if not items:
            return 0.0 if (denominator, cold) == ("k", "zero") else None
        return math.fsum(map(bits, items)) / ((k if denominator == "k" else None) or len(items))

    return over_events([per_event(event) for event in events], events, **how)
