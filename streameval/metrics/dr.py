"""Doubly robust estimate."""

from streameval.catalogue.importance import (
    Chances,
    Clip,
    Least,
    Slots,
    clip_weights,
    numbers,
    rewards,
    weights,
)
from streameval.catalogue.metric import metric
from streameval.events import Event


@metric(
    bounds=(float("-inf"), float("inf")),
    source="Dudik, Langford, Li, ICML 2011; cascade: Kiyohara et al., WSDM 2022; Open Bandit "
    "Pipeline 0.5.5",
)
def dr(
    event: Event,
    k: int | None,
    *,
    propensity: str = "propensity",
    target: str = "target",
    predicted: str = "predicted",
    expected: str = "expected",
    slots: Slots = "item",
    clip: Clip = 0.0,
    least: Least = 0.0,
    direct: bool = False,
) -> float | None:
    """Doubly robust: the value a reward model expects of the policy, plus `ips` of its errors.

    Per item, `predicted` is the model's reward of the item shown, and `expected` the mean of its
    rewards over the policy's choices at that rank (given the items above, for slots=cascade). It is
    unbiased if either the propensities or the model are right, and varies less than `ips`. It may
    be negative, as gains may. With direct=true it is the model alone (direct method), without
    weights and without a check. Undefined without lists that have all these values.

        dr@k = sum over lists and ranks <= k of (weight * (gain - predicted) + u * expected) / lists
        u = 1, or for slots=cascade the weight of the rank above

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("dr", "dr(direct=true)")
        >>> model = {"predicted": [0.5], "expected": [0.25]}
        >>> chances = {"propensity": [0.5], "target": [0.75]}
        >>> accumulator.update(["a"], ["a"], per_item=chances | model)
        >>> accumulator.read("dr").value, accumulator.read("dr(direct=true)").value
        (1.0, 0.25)
    """
    means = numbers(event, k, expected)
    if direct or means is None:
        return None if means is None else sum(means)
    of_items, model = (
        weights(event, k, Chances(propensity, target, least), slots),
        numbers(event, k, predicted),
    )
    if of_items is None or model is None:
        return None
    weighted = clip_weights(of_items, clip)
    above = [1.0, *weighted[:-1]] if slots == "cascade" else [1.0] * len(weighted)
    ranks = zip(weighted, rewards(event, k), model, above, means, strict=True)
    return sum(
        weight * (gain - guess) + before * mean for weight, gain, guess, before, mean in ranks
    )
