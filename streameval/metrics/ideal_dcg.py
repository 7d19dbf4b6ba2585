"""Discounted cumulative gain of the ideal list."""

import math

from streameval.catalogue.cumulative_gain import Base, Gain, GainDiscount, discount, gain_value
from streameval.catalogue.metric import metric
from streameval.statistics.hitrows import Total
from streameval.statistics.lists import Lists


@metric(
    bounds=(0, float("inf")),
    higher_is_better=None,
    empty="skip",
    source="Jaervelin and Kekaelaeinen, Cumulated gain-based evaluation, TOIS 2002",
)
def ideal_dcg(
    lists: Lists,
    k: int | None,
    *,
    gain: Gain = "linear",
    discount_by: GainDiscount = "log2",
    base: Base = 2.0,
) -> Total:
    """DCG of the best order of the items interacted with: what ndcg divides by.

    The recommendations are ignored. Gains, discounts and base are those of dcg. A list without
    interactions is left out (empty=zero counts it as 0). Undefined without lists that have
    interactions.

        ideal_dcg@k = mean over lists of (sum over ranks <= k of the best order of gain / discount)

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("ideal_dcg")
        >>> accumulator.update(["a"], {"x": 1.0, "y": 3.0, "z": 2.0})
        >>> round(accumulator.read("ideal_dcg").value, 4)
        4.7619
    """
    best = lists.best(k)
    discounted = gain_value(best.gain, gain) * discount(best.rank, discount_by)
    return best.total(discounted * math.log2(base))
