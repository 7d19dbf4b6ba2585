"""What a list and its outcome are to a rank metric, from the definitions and nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, TypeAlias

Id: TypeAlias = str | int
Interactions: TypeAlias = Sequence[Id] | frozenset[Id] | Mapping[Id, float]
Number: TypeAlias = Fraction | float


class Shown(NamedTuple):
    """One event: what was shown, what was done with it, and where each item stood."""

    recommendations: Sequence[Id]
    interactions: Interactions
    positions: Sequence[int] | None = None


@dataclass(frozen=True)
class Outcome:
    """One list up to a cut-off.

    hits: (rank, gain) of each hit, by rank; gains: of all relevant items, best first;
    length: items in the list up to the cut-off; shown: the ranks at which they stood.
    """

    hits: list[tuple[int, float]]
    gains: list[float]
    length: int
    shown: list[int]


@dataclass(frozen=True)
class Reader:
    """How lists are read: the cut-off and the parameters that all rank metrics share."""

    k: int | None
    repeats: str = "first"
    rows: int = 0
    min_gain: float = 0.0

    def outcome(self, event: Shown) -> Outcome:
        gains = self._gains(event.interactions)
        placed = self._placed(event)
        kept = [(rank, item) for rank, item in placed if self.k is None or rank <= self.k]
        hits = sorted((rank, gains[item]) for rank, item in self._counted(kept) if item in gains)
        length = len(placed) if self.k is None else min(len(placed), self.k)
        ideal = sorted(gains.values(), reverse=True)
        return Outcome(hits, ideal, length, [rank for rank, _ in kept])

    def outcomes(self, events: Iterable[Shown]) -> list[Outcome]:
        return [self.outcome(event) for event in events]

    def _gains(self, interactions: Interactions) -> dict[Id, float]:
        given = (
            interactions if isinstance(interactions, Mapping) else dict.fromkeys(interactions, 1)
        )
        return {item: gain for item, gain in given.items() if gain > 0 and gain >= self.min_gain}

    def _placed(self, event: Shown) -> list[tuple[int, Id]]:
        """Items with their ranks; a list is closed up only where its ranks are its own order."""
        if event.positions is not None:
            return list(zip(event.positions, event.recommendations, strict=True))
        items = list(event.recommendations)
        if self.repeats == "compact_after_cut":
            items = items[: self.rows or self.k or len(items)]
        if self.repeats.startswith("compact"):
            items = [item for place, item in enumerate(items) if item not in items[:place]]
        return list(enumerate(items, start=1))

    def _counted(self, placed: list[tuple[int, Id]]) -> list[tuple[int, Id]]:
        if self.repeats == "every":
            return placed
        best = {item: min(rank for rank, other in placed if other == item) for _, item in placed}
        return [(rank, item) for item, rank in best.items()]


def mean_over_lists(
    outcomes: Iterable[Outcome], empty: str, value: Callable[[Outcome], Number]
) -> float:
    """Mean of a per-list value; `empty` says what a list without relevant items is."""
    values: list[Number] = []
    for outcome in outcomes:
        if outcome.gains:
            values.append(value(outcome))
        elif empty != "skip":
            values.append(Fraction(0) if empty == "zero" else math.nan)
    return mean(values)


def mean(values: Sequence[Number]) -> float:
    if not values:
        return math.nan
    if all(isinstance(value, Fraction) for value in values):
        return float(Fraction(sum(values)) / len(values))
    return math.fsum(values) / len(values)
