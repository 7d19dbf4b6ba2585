"""Area under the ROC curve of all scored items together."""

import math

from streameval.catalogue.metric import metric
from streameval.catalogue.reading import Bounded
from streameval.statistics.scores import Scores


@metric(
    bounds=(0, 1), per="slice", source="Mann and Whitney 1947; Hanley and McNeil, Radiology 1982"
)
def auc(scores: Scores) -> Bounded:
    """Chance that an item interacted with is scored above one that is not, over all lists.

    All scored items of all lists are pooled; ties count one half. An item without interaction is
    negative. Exact up to 65,536 distinct scores; beyond, scores are binned and the reading's low
    and high are certain bounds. Undefined without a positive or a negative item.

        auc = (pairs in the right order + ties / 2) / (positives * negatives)

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("auc")
        >>> accumulator.update(["a", "b", "c"], ["a"], scores=[0.6, 0.9, 0.1])
        >>> accumulator.read("auc").value
        0.5
    """
    value, bound = scores.area()
    if math.isnan(value):
        return Bounded(value, value, value)
    return Bounded(value, max(0.0, value - bound), min(1.0, value + bound))
