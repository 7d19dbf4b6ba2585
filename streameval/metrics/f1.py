"""F-measure of precision and recall."""

from typing import Annotated, Literal

import numpy as np

from streameval.catalogue.metric import metric
from streameval.catalogue.signature import Span
from streameval.statistics.hitrows import Total
from streameval.statistics.lists import Lists


@metric(
    bounds=(0, 1), empty="skip", source="van Rijsbergen, Information retrieval, 1979, chapter 7"
)
def f1(
    lists: Lists,
    k: int | None,
    *,
    denominator: Literal["k", "length"] = "k",
    beta: Annotated[float, Span(0, 1000)] = 1.0,
) -> Total:
    """Harmonic mean of a list's precision and recall.

    With beta above 1 recall has more weight. Precision is over k; without k, or with
    denominator=length, over the items shown. A list without interactions has no recall and is left
    out (empty=zero counts it as 0). Undefined without lists that have interactions.

        f1@k = mean over lists of ((1 + beta^2) * hits at rank <= k
               / (k + beta^2 * items interacted with))

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("f1@3")
        >>> accumulator.update(["a", "b", "c"], ["b"])
        >>> accumulator.read("f1@3").value
        0.5
    """
    rows = lists.by_interacted(k)
    items = np.full_like(lists.length, k) if k and denominator == "k" else lists.items(k)
    hits = rows.total(rows.hits.astype(np.float64))
    weight = beta * beta
    counted = items + weight * lists.wanted()
    return (1.0 + weight) * hits / np.where(counted > 0, counted, 1.0)
