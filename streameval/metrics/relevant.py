"""Number of items interacted with."""

from streameval.catalogue.metric import metric
from streameval.statistics.hitrows import HitsView, Total


@metric(bounds=(0, float("inf")), higher_is_better=None, per="total", source="trec_eval `num_rel`")
def relevant(hits: HitsView) -> Total:
    """Number of items interacted with, shown or not, over all lists: a sum, not a mean.

    Undefined without lists.

        relevant = sum over lists of items interacted with

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("relevant")
        >>> accumulator.update(["a", "b", "c"], ["b", "x"])
        >>> accumulator.read("relevant").value
        2.0
    """
    return hits.wanted()
