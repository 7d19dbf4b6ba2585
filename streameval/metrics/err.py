"""Expected reciprocal rank."""

from typing import Annotated

import numpy as np

from streameval.catalogue.cumulative_gain import gain_value
from streameval.catalogue.metric import metric
from streameval.catalogue.signature import Span
from streameval.statistics.hitrows import Total
from streameval.statistics.lists import Lists


@metric(
    bounds=(0, 1), source="Chapelle, Metzler, Zhang, Grinspan, Expected reciprocal rank, CIKM 2009"
)
def err(lists: Lists, k: int | None, *, max_grade: Annotated[float, Span(0, 1000)] = 1.0) -> Total:
    """Expected reciprocal rank of the item that satisfies a user who looks from the top down.

    An item of gain g satisfies the user with probability (2^g - 1) / 2^max_grade; gains above
    max_grade count as max_grade, an id without a gain as 1. A list without interactions counts as
    0. Undefined without lists.

        err@k = mean over lists of (sum over hits at rank <= k of P(stops at this hit) / rank)

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("err@3")
        >>> accumulator.update(["a", "b", "c"], ["a", "b"])
        >>> accumulator.read("err@3").value
        0.625
    """
    rows = lists.by_interacted(k)
    satisfied = gain_value(np.minimum(rows.gain, max_grade), "exp2") / 2.0**max_grade
    gains, looking = np.zeros(len(lists)), np.ones(len(lists))
    for ordinal in range(1, int(rows.ordinals.max(initial=0)) + 1):
        at_ordinal = np.flatnonzero(rows.ordinals == ordinal)
        index = rows.list_index[at_ordinal]
        gains[index] += looking[index] * satisfied[at_ordinal] / rows.rank[at_ordinal]
        looking[index] *= 1.0 - satisfied[at_ordinal]
    return gains
