"""Reward limit."""

from streameval.catalogue.metric import metric
from streameval.catalogue.ranked_items import indices_by_rank
from streameval.events import Event
from streameval.statistics.scores import gains_of


@metric(
    bounds=(0, float("inf")),
    higher_is_better=None,
    source="Bounds of a mean with a part that is not seen: Manski, Am. Econ. Rev. 1990",
)
def reward_limit(event: Event, k: int | None) -> float | None:
    """Largest reward of a list whose gains are 0 to 1: the number of its items.

    With `statistic=maximum` it bounds what a policy can earn from items that a log never showed.
    Lists with a gain above 1 or below 0, whose limits are unknown, are left out. Undefined without
    other lists.

        reward_limit@k = sum over lists of the items at rank <= k / lists

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("reward_limit")
        >>> accumulator.update(["a", "b"], ["a"])
        >>> accumulator.update(["a"], {"a": 2.5})
        >>> accumulator.update(["a"], {"a": -1.0})
        >>> reading = accumulator.read("reward_limit")
        >>> reading.value, reading.count, reading.lists
        (2.0, 1, 3)
    """
    gains = gains_of(event.interactions).values()
    if gains and not 0.0 <= min(gains) <= max(gains) <= 1.0:
        return None
    return float(len(indices_by_rank(event, k)))
