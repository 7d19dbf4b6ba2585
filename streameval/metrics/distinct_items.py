from streameval.metric import metric
from streameval.statistics.exposures import Exposures


@metric(
    bounds=(0, float("inf")),
    per="slice",
    source="Adomavicius and Kwon, Improving aggregate recommendation diversity, TKDE 2012",
)
def distinct_items(exposures: Exposures, k: int | None) -> float:
    """Number of distinct items shown up to rank k, over all lists (aggregate diversity).

    Without lists there is no value.

        distinct_items@k = |union over lists of the first k items|

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("distinct_items@2")
        >>> accumulator.update(["a", "b", "c"], [])
        >>> accumulator.update(["b", "a"], [])
        >>> accumulator.read("distinct_items@2").value
        2.0
    """
    return exposures.distinct(k) if exposures.lists else float("nan")
