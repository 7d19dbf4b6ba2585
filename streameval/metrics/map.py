"""Mean average precision."""

from typing import Annotated, Literal

import numpy as np

from streameval.catalogue.metric import metric
from streameval.catalogue.signature import Span
from streameval.events import LARGEST_RANK
from streameval.statistics.hitrows import HitsView, Total


@metric(
    bounds=(0, 1),
    empty="skip",
    listwise={"denominator": ("hits", "shown")},
    source="Manning, Raghavan, Schuetze, Introduction to IR, 2008, section 8.4",
)
def map_(
    hits: HitsView,
    k: int | None,
    *,
    denominator: Literal["ideal", "k", "interacted", "shown", "hits"] = "ideal",
    normalizer: Annotated[int, Span(0, LARGEST_RANK)] = 0,
) -> Total:
    """Mean average precision: precision at the rank of each hit, averaged.

    The sum is divided by the possible hits, min(k, items interacted with); with denominator=k by k;
    without k, or with denominator=interacted, by all items interacted with; with denominator=shown
    by at most the length of the list; with denominator=hits by the hits found. A normalizer above 0
    replaces k in the denominator. A list without interactions is left out (empty=zero counts it as
    0). Undefined without lists that have interactions.

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
    rows = hits.by_ideal(k) if denominator == "shown" else hits.by_interacted(k)
    cut = normalizer or k
    possible = rows.size if cut is None else np.minimum(rows.size, cut)
    if cut is not None and denominator == "k":
        possible = np.full_like(rows.size, cut)
    if denominator == "interacted":
        possible = rows.size
    if denominator == "hits":
        possible = rows.total(rows.hits)[rows.owner]
    return rows.total(rows.ordinals / rows.rank / possible)
