"""Average popularity of the items shown."""

import math
from typing import Literal

from streameval.catalogue.items import Popularity
from streameval.catalogue.metric import metric
from streameval.events import Event


@metric(
    bounds=(0, math.inf),
    higher_is_better=False,
    source="Yin et al., Challenging the long tail recommendation, VLDB 2012",
    interactions=False,
)
def average_popularity(
    event: Event,
    k: int | None,
    popularity: Popularity,
    *,
    unit: Literal["users", "share"] = "users",
) -> float | None:
    """Mean popularity of the first k items: the number of users who interacted with each before.

    Popularity is fixed; with unit=share it is divided by all users. An item that no one interacted
    with counts 0. Empty lists are left out. Undefined without lists.

        average_popularity@k = mean over lists of (sum over the first k items of users / items)

    Example:
        >>> from streameval import Accumulator, Popularity
        >>> popularity = Popularity({"a": 4, "b": 1}, users=4)
        >>> accumulator = Accumulator("average_popularity@2", popularity=popularity)
        >>> accumulator.update(["a", "b"], [])
        >>> accumulator.read("average_popularity@2").value
        2.5
    """
    items = event.recommendations[:k]
    if not items:
        return None
    amount = popularity.share if unit == "share" else popularity.of
    return math.fsum(map(amount, items)) / len(items)
