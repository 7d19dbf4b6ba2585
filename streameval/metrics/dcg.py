"""Discounted cumulative gain."""

import math

from streameval.catalogue.cumulative_gain import (
    Base,
    Gain,
    GainDiscount,
    ValueCap,
    cap_values,
    discount,
    gain_value,
)
from streameval.catalogue.metric import metric
from streameval.statistics.hitrows import HitsView, Total


@metric(
    bounds=(0, float("inf")),
    graded=True,
    listwise={"cap": ()},
    source="Jaervelin and Kekaelaeinen, Cumulated gain-based evaluation, TOIS 2002",
)
def dcg(
    hits: HitsView,
    k: int | None,
    *,
    discount_by: GainDiscount = "log2",
    base: Base = 2.0,
    cap: ValueCap = 0.0,
    gain: Gain = "linear",
) -> Total:
    """Discounted cumulative gain of the first k items.

    A gain g counts as g, with gain=exp2 as 2^g - 1, and with gain=binary as 1; an id without a gain
    counts as 1. The discount is log2(rank + 1); with discount_by=ln it is ln(rank + 1), with
    log2_rank max(1, log2(rank)). Another base of the logarithm multiplies values by log2(base). A
    list without interactions counts as 0. Undefined without lists. With gain=exp2 a gain above 1000
    counts as 1000, so that sums stay finite. With a cap, a list with more counts as the cap; for
    cap=p99.5 see value_per_list.

        dcg@k = mean over lists of (sum over hits at rank <= k of gain / log2(rank + 1))

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("dcg@3")
        >>> accumulator.update(["a", "b", "c"], ["a", "c"])
        >>> accumulator.read("dcg@3").value
        1.5
    """
    rows = hits.by_interacted(k)
    discounted = rows.hits * gain_value(rows.gain, gain) * discount(rows.rank, discount_by)
    return cap_values(rows.total(discounted * math.log2(base)), cap)
