"""Area under the ROC curve within the first k items."""

import numpy as np

from streameval.catalogue.metric import metric
from streameval.statistics.hitrows import Total
from streameval.statistics.lists import Lists


@metric(
    bounds=(0, 1),
    empty="skip",
    source="RePlay 0.10.0 `RocAuc`: the area under the curve of one list's order",
)
def roc_auc(lists: Lists, k: int | None) -> Total:
    """Share of the pairs (hit, other item) among the first k that are in the right order.

    Only the order counts, not the scores. A list without a hit counts as 0, one without any other
    item among the first k as 1. A list without interactions is left out (empty=zero counts it as
    0). Undefined without lists that have interactions.

        roc_auc@k = mean over lists of (1 - misplaced pairs / (hits * other items))

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("roc_auc@3")
        >>> accumulator.update(["a", "b", "c"], ["b"])
        >>> accumulator.read("roc_auc@3").value
        0.5
    """
    rows = lists.by_length(k)
    hits = rows.total(rows.hits.astype(np.float64))
    others = np.minimum(lists.length, lists.length if k is None else k) - hits
    misplaced = rows.total((rows.rank - rows.ordinals).astype(np.float64))
    pairs = np.maximum(hits * others, 1.0)
    # With explicit positions, more ranks may be above a hit than there are items.
    return np.where(hits > 0, np.maximum(1.0 - misplaced / pairs, 0.0), 0.0)
