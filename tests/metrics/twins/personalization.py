import math
from collections.abc import Sequence
from itertools import combinations

from tests.metrics.preparation import Shown
from tests.metrics.summaries import RefusedError, mean


def personalization(events: Sequence[Shown], k: int | None, *, unlike: str = "take") -> float:
    """1 minus the cosine of any two lists, as vectors of 0 and 1; averaged over pairs."""
    lists = [event.recommendations[:k] for event in events]
    if unlike == "refuse" and lists:
        repeats = any(len(set(items)) < len(items) for items in lists)
        if repeats or not all(lists) or len(lists) == 1 or len(set(map(len, lists))) > 1:
            raise RefusedError
    kinds = [set(items) for items in lists if items]
    cosines = [
        len(one & other) / math.sqrt(len(one) * len(other)) for one, other in combinations(kinds, 2)
    ]
    return 1 - mean(cosines)
