from typing import Literal

import numpy as np

from streameval.cumulative_gain import Discount, Gain, discount, ideal, worth
from streameval.metric import metric
from streameval.statistics.hitcells import HitsView, Total
from streameval.statistics.lists import Lists

Best = Literal["cut", "list", "whole"]


def _graded(
    lists: Lists,
    k: int | None,
    *,
    gain: Gain = "linear",
    discount_by: Discount = "log2",
    best: Best = "cut",
    digits: int = 0,
) -> Total:
    cells, order = lists.by_interacted(k), lists.best(None if best == "whole" else k)
    if digits:
        return _rounded(lists, cells, order, gain=gain, discount_by=discount_by, digits=digits)
    found = cells.total(worth(cells.gain, gain) * discount(cells.rank, discount_by))
    counts = worth(order.gain, gain) * discount(order.rank, discount_by)
    if best == "list":
        counts[order.rank > lists.length[order.owner]] = 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        return found / order.total(counts)


def _rounded(
    lists: Lists,
    cells: HitCells,
    order: HitCells,
    *,
    gain: Gain,
    discount_by: Discount,
    digits: int,
) -> Total:
    single = replace(cells, gain=cells.gain.astype(np.float32))
    widths = np.zeros(len(lists), np.int64)
    np.maximum.at(widths, cells.owner, cells.rank)


@metric(
    bounds=(0, 1),
    empty="skip",
    graded=_graded,
    source="Jaervelin and Kekaelaeinen, Cumulated gain-based evaluation, TOIS 2002",
)
def ndcg(
    hits: HitsView, k: int | None, *, discount_by: Discount = "log2", best: Best = "cut"
) -> Total:
    """Normalised DCG: the gain of the first k items against the best order's.

    An id without a gain is worth 1; a gain g is worth g, with gain=exp2 2^g - 1, with gain=binary
    1. Discounts are those of dcg. The best order's first min(k, items interacted with) items
    count, with best=list no more than the list is long, with best=whole all of them. With digits
    above 0 each list's value is rounded to so many decimals as a 32-bit float. A list without
    interactions is left out (empty=zero counts it as 0). Without lists that have interactions
    there is no value.

        ndcg@k = mean over lists of (dcg@k / dcg@k of the best order)

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("ndcg@3")
        >>> accumulator.update(["a", "b", "c"], ["c"])
        >>> accumulator.read("ndcg@3").value
        0.5
    """
    cells = hits.by_ideal(k) if best == "list" else hits.by_interacted(k)
    possible = cells.size if k is None or best == "whole" else np.minimum(cells.size, k)
    return cells.total(
        cells.hits * discount(cells.rank, discount_by) / ideal(possible, discount_by)
    )
