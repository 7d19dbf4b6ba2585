"""Area under the ROC curve against the first k items without interaction."""

from streameval.catalogue.metric import metric
from streameval.catalogue.ranked_items import Short, ordered_pairs
from streameval.events import Event


@metric(
    bounds=(0, 1),
    source="Budhiraja et al., Rich-item recommendations for rich-users, 2020; RecTools 0.19.0 "
    "`PartialAUC`",
)
def partial_auc(event: Event, k: int | None, *, short: Short = "count") -> float | None:
    """Share of the pairs (item interacted with, one of the first k other items) in the right order.

    The whole list is read: k counts the other items, not ranks, and needs about k more items than
    were interacted with. What is missing counts as ranked last (short=skip leaves out a list that
    shows fewer than k other items and lacks one interacted with). Without k all other items of the
    list count. Lists without interactions are left out. Undefined without lists that have
    interactions.

        partial_auc@k = mean over lists of (sum over hits of max(0, k - other items before it)
                        / (k * items interacted with))

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("partial_auc@2")
        >>> accumulator.update(["a", "b", "c", "d"], ["a", "c", "x"])
        >>> accumulator.read("partial_auc@2").value
        0.5
    """
    counts = ordered_pairs(event, k, hits=None, short=short)
    if counts is None:
        return None
    pairs, others, interacted = counts
    return pairs / (others * interacted)
