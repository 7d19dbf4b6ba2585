"""Recall that weighs rare items more."""

import math
from typing import Annotated

from streameval.catalogue.items import Popularity
from streameval.catalogue.metric import metric
from streameval.catalogue.ranked_items import first_distinct_items
from streameval.catalogue.signature import Span
from streameval.events import Event
from streameval.statistics.scores import gains_of


@metric(
    bounds=(0, 1),
    source="Steck, Item popularity and recommendation accuracy, RecSys 2011; Yang et al., Unbiased "
    "offline recommender evaluation for missing-not-at-random implicit feedback, RecSys 2018",
)
def stratified_recall(
    event: Event,
    k: int | None,
    popularity: Popularity,
    *,
    beta: Annotated[float, Span(0, 10)] = 0.5,
) -> float | None:
    """Recall in which an item has less weight, the more users interacted with it before.

    Popular items are clicked more because they are shown more; with beta=0.5 an item with 100 users
    has a tenth of the weight of an item with one user, and with beta=0 all weights are equal, as in
    recall. Popularity is fixed; an item without popularity, or with less than one user, has the
    weight of an item with one user. Lists without interactions are left out. Undefined without
    lists that have interactions.

        stratified_recall@k = mean over lists of (sum over hits at rank <= k of users^-beta
                              / sum over items interacted with of users^-beta)

    Example:
        >>> from streameval import Accumulator, Popularity
        >>> popularity = Popularity({"a": 9, "b": 1, "c": 1})
        >>> accumulator = Accumulator("stratified_recall@2", popularity=popularity)
        >>> accumulator.update(["a", "c", "b"], ["a", "b"])
        >>> accumulator.read("stratified_recall@2").value
        0.25
    """
    gains = gains_of(event.interactions)
    weights = {
        item: max(1.0, popularity.of(item)) ** -beta
        for item in event.interactions
        if gains[item] > 0
    }
    if not weights:
        return None
    hits = [weights[item] for item in first_distinct_items(event, k) if item in weights]
    return math.fsum(hits) / math.fsum(weights.values())
