"""Inequality of the treatment of groups of items."""

import math
from typing import Annotated, Literal

from streameval.catalogue.items import Attribute
from streameval.catalogue.metric import metric
from streameval.catalogue.signature import By
from streameval.statistics.placements import Discount, Placements


@metric(
    bounds=(0, math.inf),
    higher_is_better=None,
    source="Singh and Joachims, Fairness of exposure in rankings, KDD 2018; Zhu et al., Measuring "
    "and mitigating item under-recommendation bias, SIGIR 2020; FairRankTune 0.0.7; Elliot",
)
def group_disparity(
    placements: Placements,
    k: int | None,
    attribute: Annotated[Attribute, By("provider")],
    *,
    of: Literal["exposure", "hits"] = "exposure",
    over: Literal["items", "interactions", "hits", "shown"] = "items",
    measure: Literal["ratio", "difference", "cv"] = "ratio",
    discount: Discount = "log2",
) -> float:
    """Exposure of the item group that gets least, divided by that of the one that gets most.

    A group has one value of the attribute `by`, such as a provider; an item with several values
    counts for each. A group gets `of` divided by `over`: exposure (1 / log2(rank + 1) for each
    rank, or 1 with discount=none) or hits, per existing item, interaction, hit, or position up to
    rank k. measure=ratio is the smallest divided by the largest, so 1 is equal; difference is the
    largest minus the smallest, which grows with the number of lists if `over` does not; cv is the
    standard deviation divided by the mean. Groups whose `over` is 0 are left out. Undefined without
    two groups, or if all get nothing. It has no interval.

        group_disparity@k = smallest / largest of (exposure up to rank k / items) by group

    Example:
        >>> from streameval import Accumulator
        >>> attributes = {"provider": {"a": "acme", "b": "bolt", "c": "bolt"}}
        >>> accumulator = Accumulator("group_disparity(discount=none)@2", attributes=attributes)
        >>> accumulator.update(["a", "b", "c"], [])
        >>> accumulator.read("group_disparity(discount=none)@2").value
        0.5
    """
    amounts = []
    for kind, items in attribute.sizes.items():
        denominators = {
            "items": items,
            "interactions": placements.interactions(kind),
            "hits": placements.hits(kind, k),
            "shown": placements.shown(kind, k),
        }
        gets = placements.exposure(kind, k, discount)
        if of == "hits":
            gets = placements.hits(kind, k)
        if denominators[over]:
            amounts.append(gets / denominators[over])
    return _spread(amounts, measure)


def _spread(amounts: list[float], measure: str) -> float:
    if len(amounts) < 2 or not max(amounts):
        return math.nan
    if measure == "ratio":
        return min(amounts) / max(amounts)
    if measure == "difference":
        return max(amounts) - min(amounts)
    mean = math.fsum(amounts) / len(amounts)
    return math.sqrt(math.fsum((amount - mean) ** 2 for amount in amounts) / len(amounts)) / mean
