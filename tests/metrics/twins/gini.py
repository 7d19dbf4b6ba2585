import math
from collections.abc import Collection, Sequence
from fractions import Fraction
from typing import Any

from tests.metrics.exposures import items_shown
from tests.metrics.preparation import Id, Shown
from tests.metrics.summaries import summary_of


def gini(
    events: Sequence[Shown],
    k: int | None,
    *,
    catalog: int | Collection[Id],
    over: str = "shown",
    unknown: str = "ignore",
    padding: int = 0,
    **how: Any,
) -> float:
    """Mean difference of any two items' exposures, over twice their mean."""
    shown = items_shown(events, k)
    if over == "catalog" and unknown == "ignore" and not isinstance(catalog, int):
        shown = [item for item in shown if item in catalog]
    counts = [shown.count(item) for item in set(shown)]
    if over == "catalog":
        items = catalog if isinstance(catalog, int) else len(set(catalog))
        counts += [0] * (items + padding - len(counts))
    if not sum(counts):
        return math.nan
    apart = sum(abs(one - other) for one in counts for other in counts)
    return summary_of([Fraction(apart, 2 * len(counts) * sum(counts))], **how)
