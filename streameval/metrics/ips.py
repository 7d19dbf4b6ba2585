"""Inverse propensity scoring."""

from streameval.catalogue.importance import Chances, Clip, Least, Slots, weighted_reward
from streameval.catalogue.metric import metric
from streameval.events import Event


@metric(
    bounds=(float("-inf"), float("inf")),
    source="Horvitz, Thompson, JASA 1952; slots: McInerney et al., KDD 2020; clip: Su et al., "
    "ICML 2020; Open Bandit Pipeline 0.5.5",
)
def ips(
    event: Event,
    k: int | None,
    *,
    propensity: str = "propensity",
    target: str = "target",
    slots: Slots = "item",
    clip: Clip = 0.0,
    least: Least = 0.0,
) -> float | None:
    """Estimated value of a list if another policy had chosen the items, by inverse propensities.

    Per item, `propensity` is the probability with which the log put the item at its rank, and
    `target` that of the policy. The gain of an item (1 for an id, negative for a loss) is weighted
    by target / propensity: its own (slots=item), the product up to its rank (cascade), or that of
    the whole list (list). The last two need probabilities given the items above. A clip limits each
    weight, never a gain, which biases the estimate. Lists without items, or with a missing or
    impossible probability, are left out. Undefined without other lists.

    Items that the log never showed lower the mean weight. The bounds allow for any reward of them,
    up to 1 for each item, for the share of the policy's choices that the interval of the mean
    weight leaves open. If a gain is outside 0 to 1 there are no bounds without `least`. It states
    that every item is shown with at least this probability: the bounds then make no allowance, and
    need 20 / least lists.

        ips@k = sum over lists of (weight * gain of each item at rank <= k) / lists

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("ips")
        >>> chances = {"propensity": [0.5], "target": [0.75]}
        >>> accumulator.update(["a"], ["a"], per_item=chances)
        >>> accumulator.update(["a"], [], per_item=chances)
        >>> accumulator.read("ips").value
        0.75
    """
    return weighted_reward(event, k, Chances(propensity, target, least), slots, clip)
