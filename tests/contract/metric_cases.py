"""A fixed stream with every special case, other inputs, and the texts of the whole catalogue."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from msgspec.structs import replace

from streameval.catalogue import catalogue
from streameval.catalogue.items import Popularity, Similarity
from streameval.events import Event, Interaction
from tests.metrics.preparation import Id, Interactions
from tests.strategies import CUTOFFS, NUMBERS, TIMES, WORDS, event_of, takes_k

USERS = 100
"""Number of users behind the popularity."""


ATTRIBUTES = ("genre", "provider", "tier", "kind")
"""Names of attributes of items; all have the same values."""


class Inputs:
    """Inputs about items of one kind.

    Half of the items are in the catalogue, what is shown besides is unknown; nobody had to do with
    the first item; the last two have no vectors, and the last three no value of an attribute.
    """

    def __init__(self, items: Sequence[Id]) -> None:
        draw = random.Random(3)
        catalog = frozenset(items[::2])
        counts: dict[Id, float] = {item: draw.randint(1, USERS) for item in items[1:]}
        vectors = {item: [draw.random() for _ in range(4)] for item in items[:-2]}
        kinds = {
            item: draw.sample(("tail", "mid", "news", "drama", "b"), draw.choice((1, 1, 2, 4)))
            for item in items[:-3]
        }
        attributes = dict.fromkeys(ATTRIBUTES, kinds)
        self.item = items[0]
        self.of_twins: Mapping[str, Any] = {
            "catalog": catalog,
            "popularity": (counts, USERS),
            "similarity": vectors,
            "attribute": kinds,
            "examination": (1.0, 0.75, 0.5, 0.2),
        }
        self.of_package: Mapping[str, Any] = {
            "catalog": catalog,
            "popularity": Popularity(counts, users=USERS),
            "similarity": Similarity([*vectors], vectors=[*vectors.values()]),
            "attributes": attributes,
            "examination": (1.0, 0.75, 0.5, 0.2),
        }


_WORDS, _NUMBERS = Inputs(WORDS), Inputs(NUMBERS)


def inputs(events: Iterable[Event] = ()) -> Inputs:
    """Inputs for the items of a stream: integers if it has any, otherwise words."""
    ids = chain.from_iterable(
        (*event.recommendations, *event.interactions, *(act.item for act in event.typed))
        for event in events
    )
    others = chain.from_iterable((*(e.baseline or ()), *(e.history or ())) for e in events)
    return _NUMBERS if any(isinstance(item, int) for item in chain(ids, others)) else _WORDS


NAMES = tuple(catalogue())
CASES = [(name, k) for name in NAMES for k in (CUTOFFS if takes_k(name) else (None,))]
DUMPED = [(name, k) for name, k in CASES if k in (1, 5, None)]
"""Cut-offs, which set the depth: one rank, some, and whole lists have different dumps."""

_GAINS = (1, 1, 2, 0.5, 0, -1, 3.25, 1e16, 1e-20)
_CHANCES = (0.0625, 0.25, 0.5, 1.0, 0.3, 1e-3)
_SCORES = (0.0, 0.125, 0.25, 0.3, 0.3, 0.7, 0.95, 1.0, 1 / 3, 1e-9)


def a_text_of_each() -> list[str]:
    """Every metric at two cut-offs and none, for laws about whole accumulators."""
    cuts = ("@2", "@5", "")
    return [f"{name}{cut}" for name in NAMES for cut in (cuts if takes_k(name) else ("",))]


def stream(events: int = 60, *, seed: int = 7, unshown: bool = False) -> list[Event]:
    """Seeded events: repeats, gains, positions, empty lists, no interactions.

    `unshown`: whether most lists were not shown, which only accumulators of `overlap` accept.
    """
    draw = random.Random(seed)
    drawn = [_event(draw) for _ in range(events)]
    return [_unshown(draw, event) for event in drawn] if unshown else drawn


def _unshown(draw: random.Random, event: Event) -> Event:
    others = _distinct(draw, draw.choice((0, 3, 8)))
    return replace(event, shown_instead=others) if draw.random() < 0.8 else event


def _event(draw: random.Random) -> Event:
    length = draw.choice((0, 1, 3, 6, 12))
    items = draw.choices(WORDS, k=length) if draw.random() < 0.5 else _distinct(draw, length)
    positions = draw.choices(range(1, 15), k=length) if draw.random() < 0.3 else None
    return event_of(
        items,
        _interactions(draw),
        positions,
        scores=[draw.choice(_SCORES) for _ in items] if draw.random() < 0.7 else None,
        baseline=_distinct(draw, 5) if draw.random() < 0.7 else None,
        typed=[_typed(draw) for _ in range(draw.choice((0, 1, 4)))],
        history=_distinct(draw, draw.choice((0, 4))) if draw.random() < 0.7 else None,
        user=draw.choice(WORDS) if draw.random() < 0.8 else None,
        per_item=_item_values(draw, length) if draw.random() < 0.9 else None,
        ts=draw.choice(TIMES),
    )


def _item_values(draw: random.Random, length: int) -> dict[str, list[Any]]:
    """Chances and predictions, one list in ten with one that is missing or impossible."""
    values: dict[str, list[Any]] = {
        name: draw.choices(_CHANCES, k=length)
        for name in ("propensity", "target", "predicted", "expected")
    }
    if length and draw.random() < 0.1:
        values[draw.choice(("propensity", "target"))][draw.randrange(length)] = draw.choice(
            (None, -0.5, 1.5, "b")
        )
    return values | {"team": draw.choices(("a", "b", None), k=length)}


def _typed(draw: random.Random) -> Interaction:
    kind = draw.choice((None, "click", "purchase"))
    return Interaction(item=draw.choice(WORDS), gain=draw.choice(_GAINS), type=kind)


def _interactions(draw: random.Random) -> Interactions:
    interactions = _distinct(draw, draw.choice((0, 0, 1, 1, 2, 5)))
    if draw.random() < 0.5:
        return interactions
    return {item: draw.choice(_GAINS) for item in interactions}


def _distinct(draw: random.Random, size: int) -> list[str]:
    return draw.sample(WORDS, size)
