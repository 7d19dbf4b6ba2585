"""Number of items shown."""

from streameval.catalogue.metric import metric
from streameval.statistics.hitrows import HitsView, Total


@metric(bounds=(0, float("inf")), higher_is_better=None, per="total", source="trec_eval `num_ret`")
def retrieved(hits: HitsView, k: int | None) -> Total:
    """Number of items shown up to rank k, over all lists: a sum, not a mean.

    Undefined without lists.

        retrieved@k = sum over lists of items at rank <= k

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("retrieved@2")
        >>> accumulator.update(["a", "b", "c"], [])
        >>> accumulator.update(["a"], [])
        >>> accumulator.read("retrieved@2").value
        3.0
    """
    return hits.items(k)
