import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from tests.metrics.preparation import Id, Shown, over_events
from tests.metrics.summaries import mean


def list_diversity(
    events: Sequence[Shown],
    k: int | None,
    *,
    similarity: Mapping[Id, Sequence[float]],
    **how: Any,
) -> float:
    """1 minus the cosine of any two items' vectors, averaged over pairs and then over lists."""

    def per_event(event: Shown) -> float:
        items = event.recommendations[:k]
        if len(items) < 2 or not {*items} <= {*similarity}:
            return math.nan
        vectors = [similarity[item] for item in items]
        return mean([1 - _cosine(one, other) for one, other in combinations(vectors, 2)])

    return over_events([per_event(event) for event in events], events, **how)


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    lengths = math.hypot(*one) * math.hypot(*other)
    return sum(a * b for a, b in zip(one, other, strict=True)) / lengths if lengths else 0.0
