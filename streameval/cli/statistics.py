"""What each kind of metric reads, what is kept for it, and what that costs in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from streameval.metric import Reads


class Kept(NamedTuple):
    """A statistic in words.

    Attributes:
        what: what is counted.
        memory: how large it gets.
    """

    what: str
    memory: str


STATISTICS: Mapping[Reads, Kept] = {
    "hits": Kept(
        "how many hits stand at which rank, by items interacted with and by length of the list; "
        "shared by all rank metrics, and answers every cut-off up to the depth",
        "tables of integers, whose size depends on ranks and lengths and not on the number of "
        "events: kilobytes for click traffic, below 1 MB where lists have up to 200 items",
    ),
    "lists": Kept(
        "one value for each list, from where its hits are: how often each value occurred",
        "exact to 65,536 distinct values (about 1.5 MB), beyond that bins of 0.1 MB; the mean "
        "stays exact",
    ),
    "event": Kept(
        "one or more values for each event, from all that it holds: how often each value occurred",
        "exact to 65,536 distinct values (about 1.5 MB), beyond that bins of 0.1 MB; the mean "
        "stays exact",
    ),
    "exposures": Kept(
        "how often each item was shown, by cut-off",
        "one count for each item and cut-off, exact to 1,000,000 items (`max_items`), beyond "
        "that a sample by hash and the reading says `estimated`",
    ),
    "users": Kept(
        "how often each user got a list with an item, or with a hit, by cut-off",
        "one count for each user and cut-off, exact to 1,000,000 users (`max_items`), beyond "
        "that a sample by hash and the reading says `estimated`",
    ),
    "pairings": Kept(
        "how often each item stood in lists of each length",
        "one count for each item and length of list together; estimated above 1,000,000 of them",
    ),
    "scores": Kept(
        "how many positive and negative items had each score",
        "exact to 65,536 distinct scores (about 2 MB), beyond that bins (below 2 MB) and the "
        "reading has certain bounds",
    ),
    "ranksums": Kept(
        "pairs of items in the right order, summed by positive and negative items of the list",
        "one cell of two integers for each pair (positives, negatives) that occurs",
    ),
}
