"""Normalised discounted cumulative gain."""

import numpy as np

from streameval.catalogue.cumulative_gain import Gain, GainDiscount, discount, gain_value, ideal
from streameval.catalogue.metric import metric
from streameval.statistics.hitrows import HitRows, HitsView, Total
from streameval.statistics.lists import Lists


def share_of_best(rows: HitRows, order: HitRows, gain: Gain, discount_by: GainDiscount) -> Total:
    """DCG of hits over that of the best order; 0 without relevant items, NaN for 0 over 0."""

    def cumulated(items: HitRows) -> Total:
        gains = items.hits * gain_value(items.gain, gain)
        return items.total(gains * discount(items.rank, discount_by))

    with np.errstate(divide="ignore", invalid="ignore"):
        values = cumulated(rows) / cumulated(order)
    return np.where(order.total(order.hits) > 0, values, 0.0)


def graded_ndcg(
    lists: Lists, k: int | None, *, gain: Gain = "linear", discount_by: GainDiscount = "log2"
) -> Total:
    """`ndcg` of lists with gains."""
    return share_of_best(lists.by_interacted(k), lists.best(k), gain, discount_by)


@metric(
    bounds=(0, 1),
    empty="skip",
    graded=graded_ndcg,
    source="Jaervelin and Kekaelaeinen, Cumulated gain-based evaluation, TOIS 2002",
)
def ndcg(hits: HitsView, k: int | None, *, discount_by: GainDiscount = "log2") -> Total:
    """Normalised DCG: the DCG of the first k items divided by that of the best order.

    Gains and discounts are those of dcg. The best order has min(k, items interacted with) items. A
    list without interactions is left out (empty=zero counts it as 0), and so is one whose gains and
    best DCG are 0, with relevant=all. Undefined without lists that have interactions.

        ndcg@k = mean over lists of (dcg@k / dcg@k of the best order)

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("ndcg@3")
        >>> accumulator.update(["a", "b", "c"], ["c"])
        >>> accumulator.read("ndcg@3").value
        0.5
    """
    rows = hits.by_interacted(k)
    possible = rows.size if k is None else np.minimum(rows.size, k)
    return rows.total(rows.hits * discount(rows.rank, discount_by) / ideal(possible, discount_by))
