"""What metrics need besides events, as the package takes it and as the twins do."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from streameval.context import Popularity, Similarity
from tests.metrics.preparation import Id
from tests.strategies import NUMBERS, WORDS

_DRAW = random.Random(3)

CATALOG: frozenset[Id] = frozenset(WORDS[::2]) | frozenset(NUMBERS[::2])
"""Half of the items that occur; what is shown besides is unknown."""

USERS = 100
COUNTS: dict[Id, float] = {item: _DRAW.randint(1, USERS) for item in WORDS[1:] + NUMBERS[1:]}
"""How many of the users had to do with an item; nobody had to do with the first."""

VECTORS: dict[Id, list[float]] = {
    item: [_DRAW.random() for _ in range(4)] for item in WORDS[:-2] + NUMBERS[:-2]
}
"""What items are like; the last two are unknown."""

POPULARITY = Popularity(COUNTS, users=USERS)
SIMILARITY = Similarity([*VECTORS], vectors=[*VECTORS.values()])

INPUTS: Mapping[str, Any] = {
    "catalog": CATALOG,
    "popularity": (COUNTS, USERS),
    "similarity": VECTORS,
}
"""What the twins get, by name."""
