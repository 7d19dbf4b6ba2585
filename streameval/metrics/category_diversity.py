"""Number of kinds of items in a list, and their evenness."""

import math
from typing import Annotated, Literal

from streameval.catalogue.items import Attribute
from streameval.catalogue.metric import metric
from streameval.catalogue.ranked_items import amounts_by_kind, items_with_repeats
from streameval.catalogue.signature import By
from streameval.events import Event

_SMOOTHING = 1e-6
"""Added to the amount of every kind, as LensKit does."""


@metric(
    bounds=(0, math.inf),
    source="LensKit 2025 `entropy`; RePlay 0.22.0 `CategoricalDiversity`",
    interactions=False,
)
def category_diversity(
    event: Event,
    k: int | None,
    attribute: Annotated[Attribute, By("genre")],
    *,
    measure: Literal["entropy", "distinct"] = "entropy",
) -> float | None:
    """Entropy of the kinds of the first k items, in bits: 0 if all are of one kind.

    A kind is a value of the attribute `by`, such as a genre; an item of n kinds counts 1/n for
    each, and 1e-6 is added for each existing kind. With measure=distinct it is the number of kinds
    divided by k (without k, by the items shown). Lists without an item that has a kind are left
    out. Undefined without lists that have one.

        category_diversity@k = mean over lists of (-sum over kinds of share * log2(share))

    Example:
        >>> from streameval import Accumulator
        >>> attributes = {"genre": {"a": "drama", "b": "news", "c": "news"}}
        >>> accumulator = Accumulator("category_diversity@2", attributes=attributes)
        >>> accumulator.update(["b", "a", "c"], [])
        >>> accumulator.read("category_diversity@2").value
        1.0
    """
    items = items_with_repeats(event, k)
    amounts = amounts_by_kind(items, attribute)
    if not amounts:
        return None
    if measure == "distinct":
        return len(amounts) / (k or len(items))
    kinds = len(attribute.sizes)
    total = math.fsum([*amounts.values(), kinds * _SMOOTHING])
    bits = [_bits((amount + _SMOOTHING) / total) for amount in amounts.values()]
    return math.fsum([*bits, (kinds - len(amounts)) * _bits(_SMOOTHING / total)])


def _bits(share: float) -> float:
    return -share * math.log2(share)
