"""Share of long-tail items."""

import sys
from typing import Annotated

from streameval.catalogue.items import Popularity
from streameval.catalogue.metric import metric
from streameval.catalogue.signature import Span
from streameval.events import Event


@metric(
    bounds=(0, 1),
    source="Abdollahpouri et al., Popularity bias in learning-to-rank, RecSys 2017",
    interactions=False,
)
def tail_percentage(
    event: Event,
    k: int | None,
    popularity: Popularity,
    *,
    tail: Annotated[float, Span(0, sys.float_info.max)] = 0.8,
) -> float | None:
    """Share of the first k items that belong to the long tail: the least popular ones.

    The tail is the given share of the known items (at least one), all items as popular as its most
    popular one, and unknown items. A tail above 1 is the largest number of users of an item in the
    tail. Empty lists are left out. Undefined without lists.

        tail_percentage@k = mean over lists of (items of the tail among the first k / items)

    Example:
        >>> from streameval import Accumulator, Popularity
        >>> popularity = Popularity({"a": 9, "b": 1, "c": 2, "d": 3, "e": 3})
        >>> accumulator = Accumulator("tail_percentage@2", popularity=popularity)
        >>> accumulator.update(["a", "b"], [])
        >>> accumulator.read("tail_percentage@2").value
        0.5
    """
    items = event.recommendations[:k]
    if not items:
        return None
    most = popularity.most_of_tail(tail) if tail <= 1 else tail
    return sum(popularity.of(item) <= most for item in items) / len(items)
