"""Importance weights: how much more often a policy shows the items of a list than its log did."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from operator import mul
from sys import float_info
from typing import Annotated, Final, Literal, NamedTuple, TypeAlias

from streameval.catalogue.ranked_items import indices_by_rank
from streameval.catalogue.signature import Span
from streameval.events import Event
from streameval.events.errors import InvalidEventError
from streameval.events.per_item import PerItem
from streameval.statistics.scores import gains_of

Slots: TypeAlias = Literal["item", "cascade", "list"]
"""What an item's reward depends on: the item itself, also the items above it, or the whole list."""

Clip: TypeAlias = Annotated[float, Span(0, float_info.max)]
"""Largest weight; 0 for no limit."""

Least: TypeAlias = Annotated[float, Span(0, 1)]
"""Least chance with which the log shows any item; 0 if it is not known."""

_MOST = 1.0 + 1e-6
"""Largest probability: policies add up probabilities of 32 bits."""


class Chances(NamedTuple):
    """Names of the chances with which the log and the policy show each item.

    Attributes:
        least: of the log; a smaller one is impossible.
    """

    propensity: str
    target: str
    least: float = 0.0


def weights(event: Event, k: int | None, chances: Chances, slots: Slots) -> list[float] | None:
    """The weight of each item up to rank k, by rank; None if the list has none.

    `chances`: for "item" of showing it at its rank at all, else given the items above it.

    Raises:
        InvalidEventError: a chance is a word.

    Example:
        >>> chances = {"p": [0.5, 0.25], "t": [0.25, 0.5]}
        >>> event = Event(recommendations=["a", "b"], interactions=[], per_item=chances)
        >>> named = Chances("p", "t")
        >>> [weights(event, None, named, slots) for slots in ("item", "cascade", "list")]
        [[0.5, 2.0], [0.5, 1.0], [1.0, 1.0]]
    """
    latest = _LATEST[0]
    how: tuple[int | None, Chances, Slots] = (k, chances, slots)
    if latest is not None and latest[0] is event and latest[1] == how:
        return latest[2]
    values, indices = event.per_item or {}, indices_by_rank(event, k)
    ratios = _ratios(values, chances, indices)
    if not ratios:
        _refuse_words(values, chances[:2], indices)
        ratios = None
    elif len(ratios) > 1 and slots != "item":
        ratios = list(accumulate(ratios, mul))
        if slots == "list":
            ratios = ratios[-1:] * len(ratios)
    if ratios is not None and not math.isfinite(sum(ratios)):
        ratios = None
    _LATEST[0] = event, how, ratios
    return ratios


_Latest: TypeAlias = tuple[Event, tuple[int | None, Chances, Slots], list[float] | None]
_LATEST: Final[list[_Latest | None]] = [None]
"""The latest event, with its weights: several metrics read them, one after the other."""


def _ratios(values: PerItem, chances: Chances, indices: Sequence[int]) -> list[float] | None:
    """Chance of the policy / chance of the log; None if one is missing or impossible."""
    propensity, target, least = chances
    logged, judged = values.get(propensity), values.get(target)
    if logged is None or judged is None:
        return None
    ratios: list[float] = []
    for index in indices:
        below, above = logged[index], judged[index]
        if not (isinstance(below, float) and isinstance(above, float)):
            return None
        if not (0.0 < below <= _MOST and 0.0 <= above <= _MOST) or below < least:
            return None
        ratios.append(above / below)
    return ratios


def _refuse_words(values: PerItem, names: Iterable[str], indices: Sequence[int]) -> None:
    """Refuse an event with a word at these indices where a number is needed."""
    for name in names:
        column = values.get(name) or ()
        for index in indices if column else ():
            if isinstance(value := column[index], str):
                detail = f"{name}[{index}]: {value!r:.80} is a word; a metric needs a number"
                raise InvalidEventError("invalid_per_item", detail)


def clip_weights(of_items: list[float], clip: float) -> list[float]:
    """The weights, none above the clip; 0 for no limit."""
    return [min(weight, clip) for weight in of_items] if clip else of_items


def weighted_reward(
    event: Event, k: int | None, chances: Chances, slots: Slots, clip: float
) -> float | None:
    """The sum of weight times gain over the items up to rank k; None without weights."""
    of_items = weights(event, k, chances, slots)
    if of_items is None:
        return None
    if not event.interactions:
        return 0.0
    pairs = zip(clip_weights(of_items, clip), rewards(event, k), strict=True)
    return sum(weight * gain for weight, gain in pairs)


def rewards(event: Event, k: int | None) -> Iterator[float]:
    """The signed gain of each item up to rank k, by rank; 0 without one, and for a repeat."""
    left = dict(gains_of(event.interactions))
    for index in indices_by_rank(event, k):
        yield left.pop(event.recommendations[index], 0.0)


def numbers(event: Event, k: int | None, name: str) -> list[float] | None:
    """The numbers of this name for each item up to rank k, by rank; None if one is missing.

    Raises:
        InvalidEventError: one is a word.
    """
    values = (event.per_item or {}).get(name)
    if values is None:
        return None
    indices = indices_by_rank(event, k)
    numeric = [value for index in indices if isinstance(value := values[index], float)]
    if len(numeric) < len(indices):
        _refuse_words(event.per_item or {}, [name], indices)
    return numeric if numeric and len(numeric) == len(indices) else None
