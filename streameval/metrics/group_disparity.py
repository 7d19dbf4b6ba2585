"""How unequally groups of items are treated."""

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
    """The group of items that gets least, compared with the one that gets most: 1 is equal.

    A group has one value of the attribute `by`, such as a provider; an item of several values
    counts for each. What a group gets is `of` divided by `over`: exposure (1 / log2(rank + 1) for
    each rank, with discount=none 1) or hits, for each item that there is, interaction, hit, or
    place up to rank k. measure=ratio is the smallest over the largest; difference the largest minus
    the smallest, which grows with the number of lists if `over` does not; cv their standard
    deviation over their mean. Groups whose `over` is 0 are left out. Undefined without two groups,
    or if all get nothing. It has no interval.

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
