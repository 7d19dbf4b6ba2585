"""Click-through rate, corrected for the position."""

from typing import Annotated

import numpy as np

from streameval.catalogue.context import Examination
from streameval.catalogue.metric import metric
from streameval.catalogue.signature import Span
from streameval.statistics.hitrows import HitsView, Total


@metric(
    bounds=(0, float("inf")),
    per="item",
    source="Joachims, Swaminathan, Schnabel, WSDM 2017; Agarwal et al., SIGIR 2019",
)
def debiased_ctr(
    hits: HitsView,
    k: int | None,
    examination: Examination,
    *,
    floor: Annotated[float, Span(0, 1)] = 0.0,
) -> Total:
    """Share of the items shown that users would interact with if they looked at each of them.

    Each hit is divided by the chance that users look at its rank, given by `examination`. This
    holds only if a click means that an item was examined and is relevant; clicks out of trust in
    the first ranks are not corrected. A chance below `floor` counts as `floor`, which reduces the
    variance but biases the value downwards. Undefined without items shown.

        debiased_ctr@k = sum over hits at rank r <= k of 1 / max(examination of r, floor)
                         / items shown at rank <= k

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("debiased_ctr", examination=[1.0, 0.5])
        >>> accumulator.update(["a", "b", "c", "d"], ["b"])
        >>> accumulator.read("debiased_ctr").value
        0.5
    """
    rows = hits.by_length(k)
    return rows.total(rows.hits / np.maximum(examination.at(rows.rank), floor))
