"""From one list and its interactions to its profile: the work done for every event."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Literal, TypeAlias

from streameval.events import Id, Interactions
from streameval.statistics.lists import GradedProfile, Profile

Repeats: TypeAlias = Literal["first", "every", "compact_before_cut", "compact_after_cut"]
"""An item that stands several times in a list counts at its first place, at every place, or the
list is closed up to its first places before or after it is cut."""


ProfileOf: TypeAlias = Callable[[Sequence[Id], Interactions], Profile]


def first_places(depth: int) -> ProfileOf:
    """Profiles in which an item counts at its first place: the hot path of every event."""

    def profile(recommendations: Sequence[Id], interactions: Interactions) -> Profile:
        length = len(recommendations)
        if length > depth:
            length = depth
            recommendations = recommendations[:length]
        if not interactions:
            return (0, 0, length)
        place = recommendations.index
        if len(interactions) == 1:
            (item,) = interactions
            return (0, 1, length, place(item)) if item in recommendations else (0, 1, length)
        wanted = set(interactions)
        found = wanted.intersection(recommendations)
        return (0, len(wanted), length, *sorted(map(place, found)))

    return profile


def every_place(depth: int) -> ProfileOf:
    """Profiles in which an item counts at every place where it stands."""

    def profile(recommendations: Sequence[Id], interactions: Interactions) -> Profile:
        kept, wanted = recommendations[:depth], set(interactions)
        places = (place for place, item in enumerate(kept) if item in wanted)
        return (0, len(wanted), len(kept), *places)

    return profile


def compacted(rows: int | None, profile: ProfileOf) -> ProfileOf:
    """Profiles of lists whose first `rows` rows are closed up to the items' first places."""
    return lambda recommendations, interactions: profile(
        list(dict.fromkeys(recommendations[:rows])), interactions
    )


def without_relevant(profile: ProfileOf) -> ProfileOf:
    """Profiles where an id, whose gain is 1, is worth too little to be relevant."""
    return lambda recommendations, _: profile(recommendations, ())


class Profiler:
    """Finds the profile of a list.

    Args:
        depth: ranks kept; None keeps the whole list.
        repeats: what an item that stands in a list several times is.
        rows: for "compact_after_cut", how many rows are kept before compacting.
        min_gain: smallest gain that is relevant.

    Attributes:
        profile: profile of a list whose items stand at 1, 2, 3, ... and whose gains are all 1.
    """

    __slots__ = ("_compact", "_depth", "_every", "_min_gain", "_rows", "profile")

    def __init__(
        self, depth: int | None, repeats: Repeats, rows: int | None, min_gain: float
    ) -> None:
        self._depth = sys.maxsize if depth is None else depth
        self._every = repeats == "every"
        self._compact = repeats.startswith("compact")
        self._rows = rows if repeats == "compact_after_cut" else None
        self._min_gain = min_gain
        self.profile = (every_place if self._every else first_places)(self._depth)
        if self._compact:
            self.profile = compacted(self._rows, self.profile)
        if min_gain > 1:
            self.profile = without_relevant(self.profile)

    def outcome(
        self,
        recommendations: Sequence[Id],
        interactions: Interactions,
        positions: Sequence[int] | None,
    ) -> Profile | GradedProfile:
        """Profile of any list: with gains, with ranks of its own, or both."""
        gains = self._relevant(interactions)
        length, hits = self._placed(recommendations, set(gains), positions)
        head = (int(positions is not None), len(gains), length, *(rank - 1 for rank, _ in hits))
        if all(gain == 1 for gain in gains.values()):
            return head
        of_hits = tuple(gains[item] for _, item in hits)
        return head, of_hits, tuple(sorted(gains.values(), reverse=True))

    def ranks_shown(self, positions: Sequence[int]) -> Iterator[int]:
        """The ranks that are kept."""
        return (rank for rank in positions if rank <= self._depth)

    def _relevant(self, interactions: Interactions) -> dict[Id, float]:
        if not isinstance(interactions, Mapping):
            return dict.fromkeys(interactions, 1.0) if self._min_gain <= 1 else {}
        least = self._min_gain
        return {
            item: float(gain) for item, gain in interactions.items() if gain > 0 and gain >= least
        }

    def _placed(
        self, recommendations: Sequence[Id], wanted: set[Id], positions: Sequence[int] | None
    ) -> tuple[int, list[tuple[int, Id]]]:
        if positions is None:
            if self._compact:
                recommendations = list(dict.fromkeys(recommendations[: self._rows]))
            positions = range(1, len(recommendations) + 1)
        pairs = zip(positions, recommendations, strict=True)
        shown = [pair for pair in pairs if pair[0] <= self._depth]
        hits = sorted((pair for pair in shown if pair[1] in wanted), key=itemgetter(0))
        if not self._every:
            firsts = {item: rank for rank, item in reversed(hits)}
            hits = sorted(((rank, item) for item, rank in firsts.items()), key=itemgetter(0))
        # The list's own length, not what stands up to the depth: or a value would depend on it.
        return min(len(recommendations), self._depth), hits
