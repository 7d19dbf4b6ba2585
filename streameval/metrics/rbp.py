"""Rank-biased precision."""

from typing import Annotated

import numpy as np

from streameval.catalogue.cumulative_gain import Gain, cap_values, gain_value
from streameval.catalogue.metric import metric
from streameval.catalogue.signature import Span
from streameval.statistics.hitrows import HitsView, Total


@metric(bounds=(0, 1), graded=True, source="Moffat and Zobel, Rank-biased precision, TOIS 2008")
def rbp(
    hits: HitsView,
    k: int | None,
    *,
    p: Annotated[float, Span(0, 1)] = 0.8,
    gain: Gain = "binary",
    max_grade: Annotated[float, Span(0, 1000)] = 1.0,
) -> Total:
    """Rank-biased precision: hits per item seen, by a user who continues with probability p.

    A hit counts 1. Graded, with gain=linear it counts gain / max_grade, with gain=exp2 (2^gain - 1)
    / (2^max_grade - 1); gains above max_grade count as max_grade, an id without a gain as 1. With
    max_grade=0 gains count in full, and the value may exceed 1. A list without interactions counts
    as 0. Undefined without lists.

        rbp@k = mean over lists of ((1 - p) * sum over hits at rank <= k of worth * p^(rank - 1))

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("rbp(p=0.5)@10")
        >>> accumulator.update(["a", "b", "c"], ["a", "b"])
        >>> accumulator.read("rbp(p=0.5)@10").value
        0.75
    """
    rows = hits.by_interacted(k)
    seen = np.array([p ** (rank - 1) for rank in rows.rank.tolist()])
    useful = rows.gain if gain == "binary" else cap_values(rows.gain, max_grade)
    most = gain_value(np.array([max_grade]), gain)[0] or 1.0
    useful = gain_value(useful, gain) / most
    return rows.total(rows.hits * useful * seen * (1.0 - p))
