"""Unexpectedness against a baseline."""

from streameval.catalogue.metric import metric
from streameval.events import Event


@metric(
    bounds=(0, 1),
    source="RePlay 0.10.0 `Unexpectedness`; Adamopoulos and Tuzhilin, TIST 2014",
    interactions=False,
)
def unexpectedness(event: Event, k: int | None) -> float | None:
    """Share of the first k items that a baseline would not have shown among its first k.

    Each event has a baseline; events without one are left out. An empty list counts as 0; shorter
    lists are also divided by k. Undefined without events that have a baseline.

        unexpectedness@k = mean over lists of (1 - |first k items and first k of baseline| / k)

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("unexpectedness@2")
        >>> accumulator.update(["a", "b"], [], baseline=["b", "c"])
        >>> accumulator.read("unexpectedness@2").value
        0.5
    """
    if event.baseline is None:
        return None
    items = event.recommendations[:k]
    if not items:
        return 0.0
    return 1.0 - len(set(items).intersection(event.baseline[:k])) / (k or len(items))
