"""Importance weight."""

from streameval.catalogue.importance import Chances, Clip, Least, Slots, clip_weights, weights
from streameval.catalogue.metric import metric
from streameval.catalogue.signature import Reference
from streameval.events import Event


@metric(
    bounds=(0, float("inf")),
    higher_is_better=None,
    interactions=False,
    # An interval beyond 0.5 or 1.5 could hide that half of the policy was never shown.
    reference=Reference(1.0, "support is missing", "wrong propensities", "plausible", widest=0.5),
    source="Horvitz, Thompson, JASA 1952; effective_share: Kish, Survey Sampling, 1965",
)
def importance_weight(
    event: Event,
    k: int | None,
    *,
    propensity: str = "propensity",
    target: str = "target",
    slots: Slots = "item",
    clip: Clip = 0.0,
    least: Least = 0.0,
) -> float | None:
    """Mean weight of a list in `ips`: the share of the policy's choices that the log could show.

    It is 1 if the log drew its items with these propensities and could show every item of the
    policy. At 0.71 either 29 % of the policy's choices are never shown, or the propensities are too
    high. Above 1 they are too low, or the policy's probabilities sum to more than 1. It is
    plausible if its interval covers 1 and lies within 0.5 to 1.5; a wider interval is not enough
    evidence. `statistic=effective_share` is the share of the lists that an estimate can use,
    `statistic=maximum` the largest weight. Undefined without lists with chances.

        importance_weight@k = sum over lists of (mean weight of the items at rank <= k) / lists

    Example:
        >>> from streameval import Accumulator
        >>> share = "importance_weight(statistic=effective_share)"
        >>> accumulator = Accumulator("importance_weight", share)
        >>> for target in (0.75, 0.25):
        ...     accumulator.update(["a"], [], per_item={"propensity": [0.5], "target": [target]})
        >>> [accumulator.read(metric).value for metric in ("importance_weight", share)]
        [1.0, 0.8]
    """
    of_items = weights(event, k, Chances(propensity, target, least), slots)
    return None if of_items is None else sum(clip_weights(of_items, clip)) / len(of_items)
