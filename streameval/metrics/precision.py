"""Precision."""

from typing import Literal

import numpy as np

from streameval.catalogue.metric import metric
from streameval.statistics.hitrows import HitsView, Total


@metric(bounds=(0, 1), source="Manning, Raghavan, Schuetze, Introduction to IR, 2008, section 8.4")
def precision(hits: HitsView, k: int | None, *, denominator: Literal["k", "length"] = "k") -> Total:
    """Share of the first k items that the user interacted with.

    A list without interactions counts as 0. Undefined without lists. Without k, or with
    denominator=length, the hits are divided by the items shown: min(k, length of the list).

        precision@k = mean over lists of (hits at rank <= k / k)

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("precision@4", "precision(denominator=length)@4")
        >>> accumulator.update(["a", "b"], ["b"])
        >>> accumulator.read("precision@4").value
        0.25
        >>> accumulator.read("precision(denominator=length)@4").value
        0.5
    """
    rows = hits.by_length(k)
    if k is not None and denominator == "k":
        return rows.total(rows.hits / k)
    items = rows.size if k is None else np.minimum(rows.size, k)
    return rows.total(rows.hits / items)
