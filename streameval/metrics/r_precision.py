"""R-precision."""

from streameval.catalogue.metric import metric
from streameval.statistics.hitrows import HitsView, Total


@metric(
    bounds=(0, 1),
    empty="skip",
    source="Manning, Raghavan, Schuetze, Introduction to IR, 2008, section 8.4; trec_eval `Rprec`",
)
def r_precision(hits: HitsView) -> Total:
    """Precision at the rank that equals the number of items interacted with.

    It is also the recall at that rank. A list without interactions is left out (empty=zero counts
    it as 0). Undefined without lists that have interactions.

        r_precision = mean over lists of (hits at rank <= m / m), m = items interacted with

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("r_precision")
        >>> accumulator.update(["a", "b", "c"], ["b", "c"])
        >>> accumulator.read("r_precision").value
        0.5
    """
    rows = hits.by_interacted(None)
    return rows.total(rows.hits / rows.size * (rows.rank <= rows.size))
