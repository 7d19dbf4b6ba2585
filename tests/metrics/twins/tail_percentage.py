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
    ties: str = "all",
    unknown: str = "tail",
    repeats: str = "every",
    rows: int = 0,
    **how: Any,
) -> float:
    """Share of a list's items among the least popular ones; averaged over lists."""
    counts, _ = popularity
    ordered = sorted(counts, key=lambda item: (counts[item], str(type(item)), item))
    least = ordered[: max(1, int(Fraction(str(tail)) * len(counts)))]

    def rare(item: Id) -> bool:
        if item not in counts:
            return unknown == "tail"
        if tail > 1:
            return counts[item] <= tail
        return (
            item in least if ties == "id" else counts[item] <= max(counts[each] for each in least)
        )

    def per_event(event: Shown) -> Fraction | None:
        items = rows_read(event.recommendations, k, repeats, rows)
        return Fraction(sum(map(rare, items)), len(items)) if items else None

    return over_events([per_event(event) for event in events], events, **how)
