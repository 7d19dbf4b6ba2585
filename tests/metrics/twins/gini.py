import math
from collections.abc import Collection, Sequence
from fractions import Fraction

from tests.metrics.exposures import items_shown
from tests.metrics.preparation import Id, Shown


def gini(
    events: Sequence[Shown],
    k: int | None,
    *,
    catalog: int | Collection[Id],
    over: str = "shown",
) -> float:
    """Mean difference of any two items' exposures, over twice their mean."""
    shown = items_shown(events, k)
    if over == "catalog" and not isinstance(catalog, int):
        counts = [shown.count(item) for item in set(catalog)]
    else:
        counts = [shown.count(item) for item in set(shown)]
    if over == "catalog" and isinstance(catalog, int):
        counts += [0] * (catalog - len(counts))
    if not sum(counts):
        return math.nan
    apart = sum(abs(one - other) for one in counts for other in counts)
    return float(Fraction(apart, 2 * len(counts) * sum(counts)))
