import math
from typing import Annotated

import numpy as np

from streameval.metric import Span, metric
from streameval.statistics.hitcells import Total
from streameval.statistics.lists import Lists


@metric(
    bounds=(0, 1),
    empty="skip",
    source="Manning, Raghavan, Schuetze, Introduction to IR, 2008, section 8.4; "
    "trec_eval `iprec_at_recall`",
)
def iprec_at_recall(
    lists: Lists, k: int | None, *, recall: Annotated[float, Span(0, 1)] = 0.5
) -> Total:
    """Interpolated precision: the best precision at or after the rank that reaches a recall.

    The recall is reached with floor(recall * m + 0.9) hits of m items interacted with, as trec_eval
    has it; a list that never reaches it counts as 0. A list without interactions is left out
    (empty=zero counts it as 0). Without lists that have interactions there is no value.

        iprec_at_recall@k = mean over lists of (largest of hits so far / rank, where hits so far
                            >= floor(recall * m + 0.9) and rank <= k)

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("iprec_at_recall(recall=0.5)")
        >>> accumulator.update(["a", "b", "c", "d"], ["b", "d"])
        >>> accumulator.read("iprec_at_recall(recall=0.5)").value
        0.5
    """
    cells = lists.by_interacted(k)
    reached = np.array([math.floor(recall * size + 0.9) for size in cells.size.tolist()])
    best = np.zeros(len(lists))
    here = cells.ordinals >= reached
    np.maximum.at(best, cells.owner[here], (cells.ordinals / cells.rank)[here])
    return best
