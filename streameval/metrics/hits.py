"""Number of hits."""

from streameval.catalogue.metric import metric
from streameval.statistics.hitrows import HitsView, Total


@metric(bounds=(0, float("inf")), per="total", source="trec_eval `num_rel_ret`")
def hits(hits: HitsView, k: int | None) -> Total:
    """Number of hits up to rank k, over all lists: a sum, not a mean.

    Undefined without lists.

        hits@k = sum over lists of items interacted with at rank <= k

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("hits@2")
        >>> accumulator.update(["a", "b", "c"], ["b", "c"])
        >>> accumulator.update(["a", "b", "c"], ["a", "b"])
        >>> accumulator.read("hits@2").value
        3.0
    """
    rows = hits.by_interacted(k)
    return rows.total(rows.hits)
