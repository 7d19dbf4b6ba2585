"""Inputs of metrics besides events, for the package and for the twins."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from streameval.catalogue.context import Popularity, Similarity
from streameval.events import Event
from tests.metrics.preparation import Id
from tests.strategies import NUMBERS, WORDS

USERS = 100
"""Number of users behind the popularity."""


class Inputs:
    """Inputs about items of one kind.

    Half of the items are in the catalogue, what is shown besides is unknown; nobody had to do with
    the first item; the last two have no vectors.
    """

    def __init__(self, items: Sequence[Id]) -> None:
        draw = random.Random(3)
        catalog = frozenset(items[::2])
        counts: dict[Id, float] = {item: draw.randint(1, USERS) for item in items[1:]}
        vectors = {item: [draw.random() for _ in range(4)] for item in items[:-2]}
        self.item = items[0]
        self.of_twins: Mapping[str, Any] = {
            "catalog": catalog,
            "popularity": (counts, USERS),
            "similarity": vectors,
        }
        self.of_package: Mapping[str, Any] = {
            "catalog": catalog,
            "popularity": Popularity(counts, users=USERS),
            "similarity": Similarity([*vectors], vectors=[*vectors.values()]),
        }


_WORDS, _NUMBERS = Inputs(WORDS), Inputs(NUMBERS)


def inputs(events: Iterable[Event] = ()) -> Inputs:
    """Inputs for the items of a stream: integers if it has any, otherwise words."""
    ids = chain.from_iterable(
        (*event.recommendations, *event.interactions, *(each.item for each in event.typed))
        for event in events
    )
    others = chain.from_iterable((*(e.baseline or ()), *(e.history or ())) for e in events)
    return _NUMBERS if any(isinstance(item, int) for item in chain(ids, others)) else _WORDS
