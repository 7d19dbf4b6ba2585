"""Share of the exposure that one kind of item gets."""

import math
from typing import Literal

from streameval.catalogue.items import Attribute
from streameval.catalogue.metric import metric
from streameval.catalogue.ranked_items import ranked_items
from streameval.events import Event


@metric(
    bounds=(0, 1),
    higher_is_better=None,
    source="Singh and Joachims, Fairness of exposure in rankings, KDD 2018",
    interactions=False,
)
def exposure_share(
    event: Event,
    k: int | None,
    attribute: Attribute,
    *,
    among: str = "tier:tail",
    discount: Literal["log2", "none"] = "log2",
) -> float | None:
    """Share of the exposure of the first k ranks that goes to items of one kind, like long tail.

    A rank is worth 1 / log2(rank + 1), the chance that a user looks there; with discount=none each
    is worth 1, and the value is the share of the items shown. `among` names an attribute of items
    and one of its values. Items without the attribute belong to no kind. Empty lists are left out.
    Undefined without lists that have items.

        exposure_share@k = mean over lists of (sum over items of the kind at rank <= k of 1 /
                           log2(rank + 1) / the same sum over all items)

    Example:
        >>> from streameval import Accumulator
        >>> kinds = {"tier": {"a": "tail", "b": "head"}}
        >>> accumulator = Accumulator("exposure_share@2", attributes=kinds)
        >>> accumulator.update(["a", "b", "c"], [])
        >>> round(accumulator.read("exposure_share@2").value, 4)
        0.6131
    """
    kind = among.partition(":")[2]
    ranked = ranked_items(event, k)
    if not ranked:
        return None
    weights = [1.0 if discount == "none" else 1.0 / math.log2(rank + 1) for rank, _ in ranked]
    pairs = zip(weights, ranked, strict=True)
    of_kind = [value for value, (_, item) in pairs if kind in attribute.of(item)]
    return math.fsum(of_kind) / math.fsum(weights)
