"""Seeded events with every oddity that streams have."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from streameval.catalogue.context import Popularity, Similarity
from streameval.events import Event, Id, Interaction, Interactions

ITEMS: tuple[Id, ...] = tuple(range(12))
_GAINS = (1, 1, 2, 0.5, 0, -1, 3.25)
_USERS = (1, 2, 3, 5, 8)
_TYPES = ("click", "purchase")

INPUTS: Mapping[str, Any] = {
    "catalog": frozenset(ITEMS),
    "popularity": Popularity({item: 1 + number for number, item in enumerate(ITEMS)}, users=20),
    "similarity": Similarity(ITEMS, vectors=[[1.0, 1.0 + number] for number in range(len(ITEMS))]),
}
"""The catalogue, popularity and similarity that `check_metric` gives to metrics."""


def traffic(events: int, *, seed: int = 0, plain: bool = False) -> list[Event]:
    """Events over few items, so that lists and interactions meet.

    Args:
        events: how many.
        seed: the same seed gives the same events.
        plain: whether every list holds distinct items at ranks 1, 2, 3, ...; otherwise items
            repeat and stand at ranks of their own.

    Returns:
        Events with and without items, interactions, gains, scores, baselines, histories and users.

    Example:
        >>> len(traffic(3)), traffic(3) == traffic(3), traffic(3) == traffic(3, seed=1)
        (3, True, False)
    """
    draw = random.Random(seed)  # noqa: S311  reproducible on purpose; nothing secret
    return [_event(draw, plain=plain) for _ in range(events)]


def _event(draw: random.Random, *, plain: bool) -> Event:
    length = draw.choice((0, 1, 3, 6, 12))
    shown = draw.sample(ITEMS, length)
    positions = None
    if not plain and draw.random() < 0.4:
        shown = draw.choices(ITEMS, k=length)
    if not plain and draw.random() < 0.3:
        positions = draw.choices(range(1, 15), k=length)
    acts = _interactions(draw)
    return Event(
        recommendations=shown,
        interactions=acts,
        positions=positions,
        scores=[draw.randrange(1, 100) / 100 for _ in shown] if draw.random() < 0.8 else None,
        baseline=draw.sample(ITEMS, draw.choice((0, 3, 6))) if draw.random() < 0.8 else None,
        typed=_typed(draw, acts),
        history=draw.sample(ITEMS, draw.choice((0, 4))) if draw.random() < 0.8 else None,
        user=draw.choice(_USERS) if draw.random() < 0.8 else None,
    )


def _interactions(draw: random.Random) -> Interactions:
    acts = draw.sample(ITEMS, draw.choice((0, 0, 1, 1, 2, 5)))
    return acts if draw.random() < 0.5 else {item: draw.choice(_GAINS) for item in acts}


def _typed(draw: random.Random, acts: Interactions) -> Sequence[Interaction]:
    gains: Mapping[Any, float] = acts if isinstance(acts, Mapping) else dict.fromkeys(acts, 1.0)
    return [Interaction(item, gain, draw.choice(_TYPES)) for item, gain in gains.items()]
