"""Novelty: mean self-information of the items shown."""

import math
from typing import Literal

from streameval.catalogue.items import Popularity
from streameval.catalogue.metric import metric
from streameval.catalogue.rows import Repeats, rows_of
from streameval.events import Event, Id


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
    cold: Literal["most", "zero"] = "most",
    cut: bool = True,
    repeats: Repeats = "every",
    rows: int = 0,
) -> float | None:
    """Mean self-information of the first k items: how few users interacted with each before.

    Popularity is fixed. unit=share divides by the largest possible, log2(users), as surprisal does.
    An item that nobody interacted with is as novel as one user's (cold=zero: 0). With denominator=k
    short lists are diluted; with cut=false k only divides. Empty lists are left out. Undefined
    without lists.

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
    shown = rows_of(event.recommendations, k if cut else None, repeats, rows)
    items = k if denominator == "k" and k is not None else len(shown)
    if not shown:
        return 0.0 if denominator == "k" and cold == "zero" else None
    information = math.fsum(_information(item, popularity, unit, cold) for item in shown)
    return information / items


def _information(item: Id, popularity: Popularity, unit: str, cold: str) -> float:
    most = math.log2(popularity.users) if popularity.users > 0 else 0.0
    bits = _bits(item, popularity, most if cold == "most" else None)
    if unit == "bits":
        return bits
    return bits / most if most else 1.0


def _bits(item: Id, popularity: Popularity, most: float | None) -> float:
    """Self-information of an item in bits; an unknown item has `most`, or 0 if it is None."""
    share = popularity.share(item)
    if share > 0:
        return -math.log2(share)
    if most is not None or item not in popularity.counts:
        return most or 0.0
    return math.inf if popularity.users and not share else math.nan
