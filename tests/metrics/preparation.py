"""Preparation of lists and interactions for the twins, from the definitions alone."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from copy import copy
from dataclasses import dataclass
from fractions import Fraction
from functools import wraps
from inspect import signature
from typing import Any, Protocol, TypeAlias

import numpy as np

Number: TypeAlias = Fraction | float


class RefusedError(Exception):
    """No value, because the convention's system raises an error."""


def summary_of(
    values: Sequence[Number],
    *,
    statistic: str = "mean",
    q: float = 0.5,
    method: str = "linear",
    confidence: float = 0.95,
    deviation: str = "double",
    finish: Callable[[float], float] = float,
) -> float:
    """The chosen summary statistic of the defined values."""
    defined = [value for value in values if not math.isnan(value)]
    if not defined:
        return math.nan
    if statistic == "mean":
        return finish(mean(defined))
    if statistic in ("median", "quantile"):
        return finish(
            _quantile(
                sorted(defined),
                Fraction(str(q)) if statistic == "quantile" else Fraction(1, 2),
                method,
            )
        )
    if statistic == "maximum":
        return finish(float(max(defined)))
    if statistic in _SHARES:
        return _SHARES[statistic](defined)
    error = _standard_error(defined, deviation)
    wide = statistics.NormalDist().inv_cdf(0.5 + confidence / 2)
    return error if statistic == "standard_error" else error * wide


def mean(values: Sequence[Number]) -> float:
    if not values:
        return math.nan
    if any(math.isinf(value) for value in values):
        return float(sum(map(float, values)))
    return float(sum(map(_exact, values)) / len(values))


def _quantile(ordered: Sequence[Number], q: Fraction, method: str) -> float:
    if method == "lower":
        return float(ordered[max(1, math.ceil(q * len(ordered))) - 1])
    return float(np.quantile(np.array([float(value) for value in ordered]), float(q)))


def _effective_share(values: Sequence[Number]) -> float:
    if any(math.isinf(value) for value in values):
        return math.nan
    exact = list(map(_exact, values))
    squares = len(exact) * sum(weight**2 for weight in exact)
    return float(sum(exact) ** 2 / squares) if squares else math.nan


def _zeros(values: Sequence[Number]) -> float:
    return sum(value == 0 for value in values) / len(values)


_SHARES = {"effective_share": _effective_share, "zeros": _zeros}


def _standard_error(values: Sequence[Number], deviation: str) -> float:
    if len(values) < 2:
        return 0.0 if deviation == "single" else math.nan
    if any(math.isinf(value) for value in values):
        return math.nan
    spread = float(statistics.stdev(map(_exact, values)))
    if deviation == "single":
        with np.errstate(over="ignore"):
            spread = float(np.float32(spread))
    return spread / math.sqrt(len(values))


def _exact(value: Number) -> Fraction:
    return Fraction(value)


Id: TypeAlias = str | int
Interactions: TypeAlias = Sequence[Id] | AbstractSet[Id] | Mapping[Id, float]


class AnyEvent(Protocol):
    """An event: recommendations, interactions, positions, and the rest."""

    recommendations: Sequence[Id]
    interactions: Any
    positions: Sequence[int] | None
    scores: Sequence[float] | None
    baseline: Sequence[Id] | None
    shown_instead: Sequence[Id] | None
    typed: Sequence[Any]
    history: Sequence[Id] | None
    per_item: Mapping[str, Sequence[Any]] | None
    user: Id | None


@dataclass(frozen=True)
class Outcome:
    """One list up to a cut-off.

    hits: (rank, gain) of each hit, by rank; gains: of all relevant items, best first; interacted:
    how many they are; length: items in the list up to the cut-off; ranks: the ranks at which they
    stood; refused: whether the list is one that cannot be read.
    """

    hits: list[tuple[int, float]]
    gains: list[float]
    interacted: int
    length: int
    ranks: list[int]
    refused: bool

    @property
    def graded(self) -> bool:
        return any(gain != 1 for gain in self.gains)


@dataclass(frozen=True)
class Reader:
    """How lists are read: the cut-off and the parameters that all rank metrics share."""

    k: int | None
    repeats: str = "first"
    rows: int = 0
    min_gain: float = 0.0
    relevant: str = "positive"
    counting: str = "distinct"
    ids: str = "any"
    type: str = ""

    def outcome(self, event: AnyEvent) -> Outcome:
        interactions = of_type(event, self.type).interactions
        gains = self._gains(interactions)
        placed = self._placed(event)
        within = [(rank, item) for rank, item in placed if self.k is None or rank <= self.k]
        hits = [(rank, gains[item]) for rank, item in self._counted(within) if item in gains]
        length = len(placed) if self.k is None else min(len(placed), self.k)
        ideal = sorted(gains.values(), reverse=True)
        if self.counting == "every" and gains and not isinstance(interactions, Mapping):
            ideal = [1.0] * len(interactions)
        if self.counting == "joined":
            recommended = list(event.recommendations)
            rows = [[gain] * max(1, recommended.count(item)) for item, gain in gains.items()]
            ideal = sorted((gain for row in rows for gain in row), reverse=True)
        return Outcome(
            hits=sorted(hits, key=lambda hit: hit[0]),
            gains=ideal,
            interacted=len(ideal),
            length=length,
            ranks=[rank for rank, _ in within],
            refused=self.ids == "integer" and _any_word(interactions),
        )

    def outcomes(self, events: Iterable[AnyEvent]) -> list[Outcome]:
        outcomes = list(map(self.outcome, events))
        if any(outcome.refused for outcome in outcomes):
            raise RefusedError
        return outcomes

    def _gains(self, interactions: Interactions) -> dict[Id, float]:
        gains = gains_of(interactions)
        if self.relevant == "positive" or self.min_gain:
            low = self.min_gain
            return {item: gain for item, gain in gains.items() if gain > 0 and gain >= low}
        return {item: gain for item, gain in gains.items() if gain or self.relevant == "all"}

    def _placed(self, event: AnyEvent) -> list[tuple[int, Id]]:
        """Items with their ranks; repeats are removed only in lists without positions."""
        if event.positions is not None:
            return list(zip(event.positions, event.recommendations, strict=True))
        items = list(event.recommendations)
        if self.repeats == "compact_after_cut":
            items = items[: self.rows or self.k or len(items)]
        if self.repeats.startswith("compact"):
            items = once(items)
        return list(enumerate(items, start=1))

    def _counted(self, placed: list[tuple[int, Id]]) -> list[tuple[int, Id]]:
        """Every place of an item, or its first; items at one rank in the order of their list."""
        if self.repeats == "every":
            return placed
        ordered = sorted(placed, key=lambda place: place[0])
        best = {item: min(rank for rank, other in placed if other == item) for _, item in ordered}
        return [(rank, item) for item, rank in best.items()]


def _any_word(interactions: Interactions) -> bool:
    ungraded = not isinstance(interactions, Mapping)
    return ungraded and any(type(item) is str for item in interactions)


def once(items: Sequence[Id]) -> list[Id]:
    return [item for index, item in enumerate(items) if item not in items[:index]]


def gains_of(interactions: Interactions) -> dict[Id, float]:
    if isinstance(interactions, Mapping):
        return {item: float(gain) for item, gain in interactions.items()}
    return dict.fromkeys(interactions, 1.0)


def of_type(event: AnyEvent, kind: str) -> AnyEvent:
    """The event with the best interaction of each item, of one type if one is given."""
    if not kind:
        return event
    interactions = [interaction for interaction in event.typed if interaction.type == kind]
    plain = copy(event)
    plain.interactions = {
        item: max(other.gain for other in interactions if other.item == item)
        for item in {interaction.item for interaction in interactions}
    }
    return plain


Kinds: TypeAlias = Mapping[Id, Sequence[str]]
"""Item -> its values of an attribute."""


def through_group(event: AnyEvent, kinds: Kinds, value: str, last: int | None) -> AnyEvent:
    """The event as seen through the items of a value: the others are gone, no rank has changed."""
    ranks = event.positions or [*range(1, len(event.recommendations) + 1)]
    indices = [
        index
        for index, item in enumerate(event.recommendations)
        if value in kinds.get(item, ()) and (last is None or ranks[index] <= last)
    ]
    seen, interactions = copy(event), event.interactions
    seen.positions = [ranks[index] for index in indices]
    seen.recommendations = [event.recommendations[index] for index in indices]
    if event.scores is not None:
        seen.scores = [event.scores[index] for index in indices]
    if event.per_item is not None:
        named = event.per_item.items()
        seen.per_item = {name: [column[index] for index in indices] for name, column in named}
    inside = [item for item in interactions if value in kinds.get(item, ())]
    seen.interactions = (
        {item: interactions[item] for item in inside}
        if isinstance(interactions, Mapping)
        else inside
    )
    seen.typed = [
        interaction for interaction in event.typed if value in kinds.get(interaction.item, ())
    ]
    return seen


def of_values(event: AnyEvent, kinds: Kinds) -> AnyEvent:
    """The event with the values of each item in its place, all at its rank."""
    ranks = event.positions or [*range(1, len(event.recommendations) + 1)]
    pairs = zip(event.recommendations, ranks, strict=True)
    both = [(value, rank) for item, rank in pairs for value in kinds.get(item, ())]
    seen = copy(event)
    seen.recommendations = [value for value, _ in both]
    seen.positions = [rank for _, rank in both]
    return seen


Twin: TypeAlias = Callable[..., float]
"""From events, a cut-off and parameters to the value."""


def by_type(twin: Twin) -> Twin:
    @wraps(twin)
    def read(events: Sequence[AnyEvent], k: int | None, **how: Any) -> float:
        kind = how.pop("type", "")
        return twin([of_type(event, kind) for event in events], k, **how)

    return read


def per_list(
    *, empty: str, relevant: str = "positive", **of: Any
) -> Callable[[Callable[..., Number]], Twin]:
    """A metric from its value per list; `empty` is the rule for lists without relevant items."""

    def averaged(value: Callable[..., Number]) -> Twin:
        @wraps(value)
        def twin(events: Sequence[AnyEvent], k: int | None, **how: Any) -> float:
            arguments = _taken(how, signature(value).parameters)
            summing, rule = _taken(how, SUMMING), _taken(how, ("empty", "empty_list"))
            outcomes = Reader(k, **{"relevant": relevant, **how}).outcomes(events)
            rules = [_fate(outcome, **{"empty": empty, **rule}) for outcome in outcomes]
            if "error" in rules:
                raise RefusedError
            if "nan" in rules:
                return math.nan
            pairs = zip(outcomes, rules, strict=True)
            counted = [value(outcome, k, **arguments) for outcome, rule in pairs if rule == "count"]
            return summary_of(counted, **summing, **of)

        return twin

    return averaged


def _taken(how: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: how.pop(name) for name in names if name in how}


def _fate(outcome: Outcome, empty: str, empty_list: str = "any") -> str:
    rule = "zero" if outcome.interacted else empty
    if not outcome.length and empty_list != "any":
        rule = empty_list
    return "count" if rule == "zero" else rule


def per_event(value: Callable[..., Number | None]) -> Twin:
    @wraps(value)
    def twin(events: Sequence[AnyEvent], k: int | None, **how: Any) -> float:
        arguments = _taken(how, signature(value).parameters)
        return over_events([value(event, k, **arguments) for event in events], events, **how)

    return twin


def over_events(
    values: Sequence[Number | None],
    events: Sequence[AnyEvent],
    *,
    undefined: str = "skip",
    least: int = 0,
    **summing: Any,
) -> float:
    """The summary of values of events: None is left out, NaN is undefined."""
    counted = [value for value in values if value is not None]
    defined = [value for value in counted if not math.isnan(value)]
    if (undefined == "error" and len(defined) < len(counted)) or (events and len(defined) < least):
        raise RefusedError
    if undefined == "nan" and len(defined) < len(counted):
        return math.nan
    return summary_of(defined, **summing)


def pairs_in_order(outcomes: Sequence[tuple[float, bool]]) -> tuple[float, int]:
    """Pairs of a positive scored above a negative, ties one half, and the number of pairs."""
    positives = [score for score, good in outcomes if good]
    negatives = [score for score, good in outcomes if not good]
    right = sum((p > n) + (p == n) / 2 for p in positives for n in negatives)
    return right, len(positives) * len(negatives)


def rows_read(items: Sequence[Id], k: int | None, repeats: str, rows: int) -> list[Id]:
    """The first k items of all rows, or of the first `rows`, without repeats if chosen."""
    if repeats == "compact_after_cut":
        return once(items[: rows or k])[:k]
    return once(items)[:k] if repeats == "compact_before_cut" else list(items[:k])


def ranked(event: AnyEvent, k: int | None) -> list[Id]:
    """The distinct items up to rank k, by rank."""
    return once(placed(event, k))


def placed(event: AnyEvent, k: int | None) -> list[Id]:
    """The items up to rank k, by rank, repeats included."""
    ranks = event.positions or list(range(1, len(event.recommendations) + 1))
    indices = [index for index, rank in enumerate(ranks) if k is None or rank <= k]
    indices.sort(key=lambda index: (ranks[index], index))
    return [event.recommendations[index] for index in indices]


def good(event: AnyEvent) -> set[Id]:
    return {item for item, gain in gains_of(event.interactions).items() if gain > 0}


def per_user(twin: Twin, events: Sequence[AnyEvent], k: int | None, how: dict[str, Any]) -> float:
    """The summary of the means of users; undefined if the mean over all lists is."""
    summing = _taken(how, SUMMING)
    if math.isnan(twin(events, k, **how)):
        return math.nan
    users = {str(event.user) for event in events if event.user is not None}
    lists = [[event for event in events if str(event.user) == user] for user in sorted(users)]
    return summary_of([twin(list_of_user, k, **how) for list_of_user in lists], **summing)


SUMMING = {"statistic", "q", "method", "confidence", "deviation"}


def fraction(part: int, whole: int) -> Fraction:
    return Fraction(part, whole) if whole else Fraction(0)


_ALL = 2**64 - 1
_SEED, _STEP = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93
_FINISH = (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53)


def user_hash(user: str | int) -> int:
    data = str(user).encode("utf-8", "surrogatepass")
    mixed = _SEED ^ (len(data) * _STEP & _ALL)
    for start in range(0, len(data), 8):
        word = int.from_bytes(data[start : start + 8], "little")
        mixed = (mixed ^ word) * _STEP & _ALL
        mixed ^= mixed >> 32
    for factor in _FINISH:
        mixed = (mixed ^ mixed >> 33) * factor & _ALL
    return mixed ^ mixed >> 33
