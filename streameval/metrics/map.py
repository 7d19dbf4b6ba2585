"""Mean average precision."""

from typing import Literal

import numpy as np

from streameval.catalogue.metric import metric
from streameval.statistics.hitrows import HitsView, Total


@metric(
    bounds=(0, 1),
    empty="skip",
    source="Manning, Raghavan, Schuetze, Introduction to IR, 2008, section 8.4",
)
def map_(
    hits: HitsView, k: int | None, *, denominator: Literal["ideal", "k", "interacted"] = "ideal"
) -> Total:
    """Mean average precision: precision at the rank of each hit, averaged.

    The sum is divided by the possible hits, min(k, items interacted with); with denominator=k by k;
    without k, or with denominator=interacted, by all items interacted with. A list without
    interactions is left out (empty=zero counts it as 0). Undefined without lists that have
    interactions.

    Where peers differ: ranx, pytrec_eval and RecTools divide by all items interacted with, which
    is less for users with more than k (`ranx:map@10`, `trec:map_cut@10`, `rectools:MAP@10`).

        map@k = mean over lists of (sum over hits at rank <= k of (hits so far / rank) / min(k, m))

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("map@4")
        >>> accumulator.update(["a", "b", "c", "d"], ["a", "d"])
        >>> accumulator.read("map@4").value
        0.75
    """
    rows = hits.by_interacted(k)
    possible = rows.size
    if k is not None and denominator != "interacted":
        possible = np.full_like(rows.size, k) if denominator == "k" else np.minimum(rows.size, k)
    return rows.total(rows.ordinals / rows.rank / possible)
