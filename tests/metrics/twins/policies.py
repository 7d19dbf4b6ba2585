"""Twins of estimates for a policy that was not shown."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tests.metrics.preparation import AnyEvent, by_type, gains_of, mean, per_event


def _chances(event: AnyEvent, indices: Sequence[int], name: str) -> list[float] | None:
    listed: Any = (event.per_item or {}).get(name)
    chances = [] if listed is None else [listed[index] for index in indices]
    return chances if chances and all(type(chance) is float for chance in chances) else None


def _indices(event: AnyEvent, k: int | None) -> list[int]:
    ranks = event.positions or range(1, len(event.recommendations) + 1)
    ordered = sorted(range(len(event.recommendations)), key=lambda index: (ranks[index], index))
    return [index for index in ordered if k is None or ranks[index] <= k]


def _weights(
    event: AnyEvent, k: int | None, propensity: str, target: str, slots: str, least: float
) -> list[float] | None:
    indices = _indices(event, k)
    logged, judged = (_chances(event, indices, name) for name in (propensity, target))
    if logged is None or judged is None:
        return None
    if not all(0 < chance <= 1 + 1e-6 and chance >= least for chance in logged):
        return None
    if not all(0 <= chance <= 1 + 1e-6 for chance in judged):
        return None
    ratios = [above / below for above, below in zip(judged, logged, strict=True)]
    ends = {"item": None, "cascade": range(1, len(ratios) + 1), "list": [len(ratios)] * len(ratios)}
    ends_of = ends[slots]
    weights = ratios if ends_of is None else [math.prod(ratios[:end]) for end in ends_of]
    return weights if all(map(math.isfinite, weights)) else None


def _least(weights: Sequence[float], clip: float) -> list[float]:
    return [weight if not clip or weight < clip else clip for weight in weights]


def _rewards(event: AnyEvent, k: int | None) -> list[float]:
    gains: Mapping[Any, float] = gains_of(event.interactions)
    items = [event.recommendations[index] for index in _indices(event, k)]
    firsts = [item not in items[:at] for at, item in enumerate(items)]
    pairs = zip(items, firsts, strict=True)
    return [gains.get(item, 0) if first else 0 for item, first in pairs]


@by_type
@per_event
def ips(
    event: AnyEvent,
    k: int | None,
    *,
    propensity: str = "propensity",
    target: str = "target",
    slots: str = "item",
    clip: float = 0.0,
    least: float = 0.0,
) -> float | None:
    """Sum of weight times reward of each item."""
    weights = _weights(event, k, propensity, target, slots, least)
    if weights is None:
        return None
    pairs = zip(_least(weights, clip), _rewards(event, k), strict=True)
    return math.fsum(weight * reward for weight, reward in pairs)


@per_event
def importance_weight(
    event: AnyEvent,
    k: int | None,
    *,
    propensity: str = "propensity",
    target: str = "target",
    slots: str = "item",
    clip: float = 0.0,
    least: float = 0.0,
) -> float | None:
    """Mean weight of the items."""
    weights = _weights(event, k, propensity, target, slots, least)
    return None if weights is None else mean(_least(weights, clip))


@per_event
def clipped_share(
    event: AnyEvent,
    k: int | None,
    *,
    propensity: str = "propensity",
    target: str = "target",
    slots: str = "item",
    clip: float = 10.0,
    least: float = 0.0,
) -> float | None:
    """1 for a list with a weight above the clip, else 0."""
    weights = _weights(event, k, propensity, target, slots, least)
    return (
        None if weights is None else float(bool(clip) and any(weight > clip for weight in weights))
    )


@by_type
@per_event
def reward_limit(event: AnyEvent, k: int | None) -> float | None:
    """Number of items up to rank k; None with a gain outside 0 to 1."""
    if any(not 0 <= gain <= 1 for gain in gains_of(event.interactions).values()):
        return None
    return float(len(_indices(event, k)))


def snips(events: Sequence[AnyEvent], k: int | None, **parameters: Any) -> float:
    """The mean of the weighted rewards divided by that of the weights."""
    above = ips(events, k, **parameters)
    parameters.pop("type", None)
    below = importance_weight(events, k, **parameters)
    return above / below if below else math.nan


@by_type
@per_event
def dr(
    event: AnyEvent,
    k: int | None,
    *,
    propensity: str = "propensity",
    target: str = "target",
    predicted: str = "predicted",
    expected: str = "expected",
    slots: str = "item",
    clip: float = 0.0,
    least: float = 0.0,
    direct: bool = False,
) -> float | None:
    """The model's expectation, corrected by the weighted errors of its predictions."""
    indices = _indices(event, k)
    means = _chances(event, indices, expected)
    if means is None or direct:
        return None if means is None else math.fsum(means)
    importance, model = (
        _weights(event, k, propensity, target, slots, least),
        _chances(event, indices, predicted),
    )
    if importance is None or model is None:
        return None
    weights, rewards = _least(importance, clip), _rewards(event, k)
    shares = [1.0, *weights] if slots == "cascade" else [1.0] * len(weights)
    return math.fsum(
        term
        for at, weight in enumerate(weights)
        for term in (weight * (rewards[at] - model[at]), shares[at] * means[at])
    )


@by_type
@per_event
def interleaving(
    event: AnyEvent, k: int | None, *, a: str = "a", b: str = "b", team: str = "team"
) -> float | None:
    """1 if b has more clicks than a, 0 if fewer, one half for a tie.

    None without clicks, and if all items are those of other rankers.
    """
    teams: Any = (event.per_item or {}).get(team)
    pairs = zip(_indices(event, k), _rewards(event, k), strict=True)
    clicked = [index for index, reward in pairs if reward]
    if teams is None or not clicked or all(name not in {a, b, None} for name in teams):
        return None
    first, second = (sum(teams[index] == name for index in clicked) for name in (a, b))
    return 0.5 if first == second else float(second > first)
