"""Overlap with the list shown."""

from streameval.catalogue.metric import metric
from streameval.events import Event


@metric(
    bounds=(0, 1),
    higher_is_better=None,
    interactions=False,
    source="1 - `unexpectedness` with the list shown as the baseline",
)
def overlap(event: Event, k: int | None) -> float | None:
    """Share of the items of a list that was not shown which users saw anyway.

    Users react only to the list shown, so a ranker that was not shown gets at most their reactions
    to the shared items: with an overlap of 0.5, about half the clicks of an equally good list that
    was shown. An empty list counts as 0; lists that were shown are left out. Undefined without
    lists that were not shown.

        overlap@k = mean over lists of (items among the first k, and among the first k shown /
                    distinct items among the first k)

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("overlap@2")
        >>> accumulator.update(["a", "b"], ["b"], shown_instead=["b", "c"])
        >>> accumulator.read("overlap@2").value
        0.5
    """
    if event.shown_instead is None:
        return None
    items = set(event.recommendations[:k])
    return len(items.intersection(event.shown_instead[:k])) / len(items) if items else 0.0
