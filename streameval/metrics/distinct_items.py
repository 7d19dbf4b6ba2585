"""Distinct items shown."""

from streameval.catalogue.metric import metric
from streameval.catalogue.reading import Bounded
from streameval.statistics.exposures import Exposures


@metric(
    bounds=(0, float("inf")),
    per="slice",
    source="Adomavicius and Kwon, Improving aggregate recommendation diversity, TKDE 2012",
)
def distinct_items(exposures: Exposures) -> Bounded:
    """Number of distinct items shown up to rank k, over all lists (aggregate diversity).

    Undefined without lists. Above `max_items` it is an estimate with bounds at 99.9 % confidence.

        distinct_items@k = |union over lists of the first k items|

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("distinct_items@2")
        >>> accumulator.update(["a", "b", "c"], [])
        >>> accumulator.update(["b", "a"], [])
        >>> accumulator.read("distinct_items@2").value
        2.0
    """
    return Bounded(*exposures.bounded())
