"""Geometric mean of average precision."""

import math
from typing import Literal

import numpy as np

from streameval.catalogue.metric import metric
from streameval.statistics.hitrows import Total
from streameval.statistics.lists import Lists

_LEAST = 0.00001


@metric(
    bounds=(0, 1),
    empty="skip",
    finish=math.exp,
    source="Robertson, On GMAP and other transformations, CIKM 2006; trec_eval `gm_map`",
)
def gm_map(
    lists: Lists, k: int | None, *, denominator: Literal["ideal", "k", "interacted"] = "ideal"
) -> Total:
    """Geometric mean of average precision: bad lists have more weight than in map.

    Average precision is that of map; below 0.00001 it counts as 0.00001. A list without
    interactions is left out (empty=zero counts it as 0.00001). Undefined without lists that have
    interactions.

        gm_map@k = exp(mean over lists of ln(max(average precision, 0.00001)))

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("gm_map")
        >>> accumulator.update(["a", "b"], ["a"])
        >>> accumulator.update(["c", "d", "e", "f"], ["f"])
        >>> round(accumulator.read("gm_map").value, 12)
        0.5
    """
    rows = lists.by_interacted(k)
    possible = rows.size
    if k is not None and denominator != "interacted":
        possible = np.full_like(rows.size, k) if denominator == "k" else np.minimum(rows.size, k)
    precision = rows.total(rows.ordinals / rows.rank / possible)
    return np.array([math.log(max(value, _LEAST)) for value in precision.tolist()])
