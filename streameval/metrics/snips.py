"""Self-normalised inverse propensity scoring."""

from streameval.catalogue.importance import Chances, Clip, Least, Slots, weighted_reward
from streameval.catalogue.metric import metric
from streameval.events import Event


@metric(
    bounds=(float("-inf"), float("inf")),
    over="importance_weight",
    source="Swaminathan, Joachims, NeurIPS 2015; Open Bandit Pipeline 0.5.5",
)
def snips(
    event: Event,
    k: int | None,
    *,
    propensity: str = "propensity",
    target: str = "target",
    slots: Slots = "item",
    clip: Clip = 0.0,
    least: Least = 0.0,
) -> float | None:
    """`ips` divided by the mean weight: it varies less.

    For lists of one item it is between the smallest and the largest gain. Parameters and lists left
    out are those of `ips` and `importance_weight`. A slate has one mean weight; Open Bandit
    Pipeline divides rank by rank, which gives the same for single items and for slots=list.
    Undefined without a weight above 0.

        snips@k = sum over lists of (weight * gain of each item at rank <= k)
                  / sum over lists of the mean weight of their items

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("snips")
        >>> for target, clicked in ((0.75, ["a"]), (0.25, [])):
        ...     chances = {"propensity": [0.5], "target": [target]}
        ...     accumulator.update(["a"], clicked, per_item=chances)
        >>> accumulator.read("snips").value
        0.75
    """
    return weighted_reward(event, k, Chances(propensity, target, least), slots, clip)
