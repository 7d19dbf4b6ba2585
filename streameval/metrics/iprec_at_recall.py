"""Interpolated precision at a recall."""

import math
from typing import Annotated, Literal

import numpy as np

from streameval.catalogue.metric import metric
from streameval.catalogue.signature import Span
from streameval.statistics.hitrows import Total
from streameval.statistics.lists import Lists


@metric(
    bounds=(0, 1),
    empty="skip",
    source="Manning, Raghavan, Schuetze, Introduction to IR, 2008, section 8.4; "
    "trec_eval `iprec_at_recall`",
)
def iprec_at_recall(
    lists: Lists,
    k: int | None,
    *,
    recall: Annotated[float, Span(0, 1)] = 0.5,
    reached: Literal["nearest", "up"] = "nearest",
) -> Total:
    """Interpolated precision: the best precision at or after the rank that reaches a recall.

    The recall is reached with round(recall * m) hits of m items interacted with, as in trec_eval's
    own test output; reached=up takes floor(recall * m + 0.9), as pytrec_eval-terrier 0.5 does. A
    list that never reaches it counts as 0. A list without interactions is left out (empty=zero
    counts it as 0). Undefined without lists that have interactions.

        iprec_at_recall@k = mean over lists of (largest of hits so far / rank, where hits so far
                            >= round(recall * m) and rank <= k)

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("iprec_at_recall(recall=0.5)")
        >>> accumulator.update(["a", "b", "c", "d"], ["b", "d"])
        >>> accumulator.read("iprec_at_recall(recall=0.5)").value
        0.5
    """
    rows = lists.by_interacted(k)
    more = 0.9 if reached == "up" else 0.5
    least = np.array([math.floor(recall * size + more) for size in rows.size.tolist()])
    best = np.zeros(len(lists))
    enough = rows.ordinals >= least
    np.maximum.at(best, rows.list_index[enough], (rows.ordinals / rows.rank)[enough])
    return best
