from typing import Annotated

import numpy as np

from streameval.metric import Span, metric
from streameval.statistics.hitcells import HitsView, Total


@metric(
    bounds=(0, 1),
    source="Moffat and Zobel, Rank-biased precision, TOIS 2008",
)
def rbp(hits: HitsView, k: int | None, *, p: Annotated[float, Span(0, 1)] = 0.8) -> Total:
    """Rank-biased precision: hits per item seen, by a user who goes on with probability p.

    A hit counts 1, whatever its gain. A list without interactions counts as 0. Without lists there
    is no value.

        rbp@k = mean over lists of ((1 - p) * sum over hits at rank <= k of p^(rank - 1))

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("rbp(p=0.5)@10")
        >>> accumulator.update(["a", "b", "c"], ["a", "b"])
        >>> accumulator.read("rbp(p=0.5)@10").value
        0.75
    """
    cells = hits.by_interacted(k)
    seen = np.array([p ** (rank - 1) for rank in cells.rank.tolist()])
    return cells.total(cells.hits * seen * (1.0 - p))
