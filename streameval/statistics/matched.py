"""From columns to lists with their hits: what `profiles` does for one event, for many at once."""

from __future__ import annotations

import numpy as np

from streameval.events.ragged import Coded
from streameval.statistics.arrays import IntArray
from streameval.statistics.lists import REFUSED, Lists
from streameval.statistics.matching import Matches, matches
from streameval.statistics.profiles import HitsOptions


def can_be_matched(options: HitsOptions, coded: Coded) -> bool:
    """Whether columns can be counted as they are, in the way the options ask for."""
    if options.type or options.repeats.startswith("compact"):
        return False
    return options.ids == "any" or coded.texts is not None


def matched(options: HitsOptions, coded: Coded, cells: IntArray) -> Lists:
    """The lists of columns that can be matched; each occurred in one of the cells.

    Example:
        >>> from streameval.events.ragged import Ragged
        >>> shown = Ragged(np.array([7, 8, 9]), np.array([0, 2, 3]))
        >>> acts = Ragged(np.array([8]), np.array([0, 1, 1]))
        >>> lists = matched(HitsOptions(depth=2), Coded(shown, acts, None), np.array([0, 0]))
        >>> lists.rank.tolist()
        [2]
    """
    shown = coded.recommendations.between(0, options.depth)
    found = matches(shown, coded.interactions, every=options.repeats == "every")
    if options.min_gain > 1 and options.relevant == "positive":
        none = np.zeros(0, np.int64)
        found = Matches(np.zeros(len(coded), np.int64), none, none)
    elif options.counting == "every":
        found = found._replace(interacted=coded.interactions.lengths)
    kind = _kind(options, coded)
    return Lists.of_hits(cells, kind, found.interacted, shown.lengths, found.owner, found.place + 1)


def _kind(options: HitsOptions, coded: Coded) -> IntArray:
    refused = options.ids == "integer" and bool(coded.texts)
    return REFUSED * ((coded.interactions.lengths > 0) & refused).astype(np.int64)
