"""Novelty: mean self-information of the items shown."""

import math
from typing import Literal

from streameval.catalogue.items import Popularity
from streameval.catalogue.metric import metric
from streameval.events import Event


@metric(
    bounds=(-math.inf, math.inf),
    source="Zhou et al., Solving the apparent diversity-accuracy dilemma, PNAS 2010",
    interactions=False,
)
def novelty(
    event: Event,
    k: int | None,
    popularity: Popularity,
    *,
    denominator: Literal["length", "k"] = "length",
    unit: Literal["bits", "share"] = "bits",
) -> float | None:
    """Mean self-information of the first k items: how few users interacted with each before.

    Popularity is fixed. unit=share divides by the largest possible, log2(users), as surprisal does.
    An item that no one interacted with counts like an item of one user. With denominator=k, short
    lists are also divided by k. Empty lists are left out. Undefined without lists.

        novelty@k = mean over lists of (sum over the first k items of -log2(users of item / users)
                    / items)

    Example:
        >>> from streameval import Accumulator, Popularity
        >>> popularity = Popularity({"a": 4, "b": 1}, users=4)
        >>> accumulator = Accumulator("novelty@2", popularity=popularity)
        >>> accumulator.update(["a", "b"], [])
        >>> accumulator.read("novelty@2").value
        1.0
    """
    items = event.recommendations[:k]
    if not items:
        return None
    # An item that nobody interacted with has the information of one user's.
    most = math.log2(popularity.users) if popularity.users > 0 else 0.0
    shares = map(popularity.share, items)
    bits = [-math.log2(share) if share > 0 else most for share in shares]
    if unit == "share":
        bits = [item_bits / most if most else 1.0 for item_bits in bits]
    return math.fsum(bits) / (k if denominator == "k" and k is not None else len(items))
