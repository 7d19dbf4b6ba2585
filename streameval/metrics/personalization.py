"""Personalization: difference between lists."""

import math
from typing import Literal

from streameval.catalogue.metric import metric
from streameval.events.errors import UndefinedMetricError
from streameval.statistics.pairings import Pairings


@metric(
    bounds=(0, 1),
    per="slice",
    source="CAPRI (dbbb506) `personalization`: mean dissimilarity of the lists of different users",
)
def personalization(pairings: Pairings, *, unlike: Literal["take", "refuse"] = "take") -> float:
    """How different the lists are from each other: 1 minus the mean cosine of any two.

    A list is the set of its first k items; empty lists are left out. With unlike=refuse the value
    is undefined if lists have different lengths, are empty or repeat an item, or if there is only
    one. Undefined without two lists.

        personalization@k = 1 - mean over pairs of lists of (|A and B| / sqrt(|A| |B|))

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("personalization")
        >>> accumulator.update(["a", "b"], [])
        >>> accumulator.update(["b", "c"], [])
        >>> round(accumulator.read("personalization").value, 12)
        0.5
    """
    if unlike == "refuse":
        unequal = len(pairings.lengths) > 1 or pairings.empty
        if unequal or pairings.repeating or pairings.lists == 1:
            why = "lists of different lengths, empty or with repeats, or only one"
            raise UndefinedMetricError("personalization", why)
    cosine = pairings.mean_cosine()
    return math.nan if math.isnan(cosine) else 1.0 - cosine
