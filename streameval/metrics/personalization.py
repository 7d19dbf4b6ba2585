"""Personalization: difference between lists."""

from streameval.catalogue.metric import metric
from streameval.statistics.pairings import Pairings


@metric(
    bounds=(0, 1),
    per="slice",
    source="CAPRI (dbbb506) `personalization`: mean dissimilarity of the lists of different users",
)
def personalization(pairings: Pairings) -> float:
    """Difference between lists: 1 minus the mean cosine of any two.

    A list is the set of its first k items; empty lists are left out. Undefined without two lists.

        personalization@k = 1 - mean over pairs of lists of (|A and B| / sqrt(|A| |B|))

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("personalization")
        >>> accumulator.update(["a", "b"], [])
        >>> accumulator.update(["b", "c"], [])
        >>> round(accumulator.read("personalization").value, 12)
        0.5
    """
    return 1.0 - pairings.mean_cosine()
