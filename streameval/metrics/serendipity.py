"""Serendipity."""

from typing import Literal

from streameval.catalogue.metric import metric
from streameval.catalogue.ranked_items import first_distinct_items
from streameval.events import Event
from streameval.statistics.scores import gains_of


@metric(bounds=(0, 1), source="Ge, Delgado-Battenfeld, Jannach, Beyond accuracy, RecSys 2010")
def serendipity(
    event: Event, k: int | None, *, denominator: Literal["k", "length"] = "k"
) -> float | None:
    """Share of the first k items that the user interacted with and a baseline would not show.

    Each event has a baseline, which is cut at k; events without one are left out. Without k, or
    with denominator=length, the share is of the items shown. An empty list counts as 0. Undefined
    without events that have a baseline.

        serendipity@k = mean over lists of (hits at rank <= k that are not among the first k of the
                        baseline / k)

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("serendipity@2")
        >>> accumulator.update(["a", "b"], ["a", "b"], baseline=["b", "c"])
        >>> accumulator.read("serendipity@2").value
        0.5
    """
    if event.baseline is None:
        return None
    items, gains = first_distinct_items(event, k), gains_of(event.interactions)
    expected = set(event.baseline[:k])
    useful = [item for item in items if gains.get(item, 0) > 0 and item not in expected]
    size = k if k is not None and denominator == "k" else len(items)
    return len(useful) / size if size else 0.0
