"""Discounted cumulative gain, corrected for the position."""

from typing import Annotated

import numpy as np

from streameval.catalogue.context import Examination
from streameval.catalogue.cumulative_gain import discount
from streameval.catalogue.metric import metric
from streameval.catalogue.signature import Span
from streameval.statistics.hitrows import HitsView, Total


@metric(
    bounds=(0, float("inf")),
    source="Agarwal, Takatsu, Zaitsev, Joachims, SIGIR 2019; Joachims et al., WSDM 2017",
)
def debiased_dcg(
    hits: HitsView,
    k: int | None,
    examination: Examination,
    *,
    floor: Annotated[float, Span(0, 1)] = 0.0,
) -> Total:
    """Discounted cumulative gain of the relevant items, as if users looked at each rank.

    Each hit counts as 1 / the chance that users look at its rank, discounted by log2(rank + 1);
    see `debiased_ctr`. Gains are not read. Undefined without lists.

        debiased_dcg@k = mean over lists of
            (sum over hits at rank r <= k of 1 / max(examination of r, floor) / log2(r + 1))

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("debiased_dcg", examination=[1.0, 0.5, 0.25])
        >>> accumulator.update(["a", "b", "c", "d"], ["c"])
        >>> accumulator.read("debiased_dcg").value
        2.0
    """
    rows = hits.by_length(k)
    chances = np.maximum(examination.at(rows.rank), floor)
    return rows.total(rows.hits / chances * discount(rows.rank, "log2"))
