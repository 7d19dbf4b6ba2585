"""Share of lists with a clipped weight."""

from streameval.catalogue.importance import Chances, Clip, Least, Slots, weights
from streameval.catalogue.metric import metric
from streameval.events import Event


@metric(
    bounds=(0, 1),
    higher_is_better=None,
    interactions=False,
    source="Ionides, Truncated importance sampling, JCGS 2008",
)
def clipped_share(
    event: Event,
    k: int | None,
    *,
    propensity: str = "propensity",
    target: str = "target",
    slots: Slots = "item",
    clip: Clip = 10.0,
    least: Least = 0.0,
) -> float | None:
    """Share of the lists in which a weight exceeds the clip of `ips(clip=...)`.

    Each clipped weight lowers the estimate. Undefined without lists with chances.

        clipped_share@k = lists with a weight above the clip at rank <= k / lists

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("clipped_share(clip=2)")
        >>> for target in (1.0, 0.25):
        ...     chances = {"propensity": [0.25], "target": [target]}
        ...     accumulator.update(["a"], [], per_item=chances)
        >>> accumulator.read("clipped_share(clip=2)").value
        0.5
    """
    of_items = weights(event, k, Chances(propensity, target, least), slots)
    return None if of_items is None else float(max(of_items) > clip > 0)
