"""Recall."""

from typing import Literal

import numpy as np

from streameval.catalogue.metric import metric
from streameval.statistics.hitrows import HitsView, Total


@metric(
    bounds=(0, 1),
    empty="skip",
    source="Manning, Raghavan, Schuetze, Introduction to IR, 2008, section 8.4",
)
def recall(
    hits: HitsView, k: int | None, *, denominator: Literal["interacted", "ideal"] = "interacted"
) -> Total:
    """Share of the items the user interacted with that are among the first k.

    A list without interactions has no recall and is left out (empty=zero counts it as 0). With
    denominator=ideal the hits are divided by the possible ones, min(k, items interacted with).
    Undefined without lists that have interactions.

        recall@k = mean over lists of (hits at rank <= k / items interacted with)

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("recall@2")
        >>> accumulator.update(["a", "b", "c"], ["b", "c"])
        >>> accumulator.update(["a", "b", "c"], [])
        >>> accumulator.read("recall@2").value
        0.5
    """
    rows = hits.by_interacted(k)
    possible = rows.size
    if denominator == "ideal" and k is not None:
        possible = np.minimum(possible, k)
    return rows.total(rows.hits / possible)
