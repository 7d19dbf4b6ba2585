"""Partial area under the ROC curve with precision: pAp@k."""

from streameval.catalogue.metric import metric
from streameval.catalogue.ranked_items import Short, ordered_pairs
from streameval.events import Event


@metric(
    bounds=(0, 1),
    source="Hiranandani et al., Optimization and analysis of the pAp@k metric, ICML 2020; RecTools "
    "0.19.0 `PAP`",
)
def pap(event: Event, k: int | None, *, short: Short = "count") -> float | None:
    """Share of the pairs (one of k hits, one of the first k other items) in the right order.

    If there are more than k items interacted with, only k of them are expected, as in precision; if
    fewer, all, as in partial_auc. The whole list is read: k counts hits and other items, not ranks,
    and needs about 2 k items. What is missing counts as ranked last (short=skip leaves out a list
    that shows fewer than k other items and lacks one interacted with). Without k it is partial_auc.
    Lists without interactions are left out. Undefined without lists that have interactions.

        pap@k = mean over lists of (sum over the first k hits of max(0, k - other items before it)
                / (k * min(k, items interacted with)))

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("pap@2")
        >>> accumulator.update(["a", "b", "c", "d"], ["a", "c", "x"])
        >>> accumulator.read("pap@2").value
        0.75
    """
    counts = ordered_pairs(event, k, hits=k, short=short)
    if counts is None:
        return None
    pairs, others, interacted = counts
    return pairs / (others * (interacted if k is None else min(k, interacted)))
