"""Series of estimates for two policies: one that the log can judge, and one it never shows."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from typing import Final

import msgspec

from streameval import Accumulator, Intervals
from streameval.catalogue import parse
from streameval.catalogue.reading import Reading
from streameval.engine.snapshot import Series
from streameval.events import Event

_ESTIMATES: Final = (
    "ips(target={})",
    "snips(target={})",
    "dr(target={})",
    "importance_weight(target={})",
    "importance_weight(statistic=effective_share,target={})",
)
POLICIES: Final = {"near": 0.5, "unseen": 0.3}
"""Policy -> its chance of each of the two items that the log shows."""


def estimates(labels: tuple[str, ...], steps: int, family: int = 0) -> Iterator[Series]:
    """The lifetime of a slice, whose sums have grown by so many steps."""
    for reading in policy_readings().values():
        counts = {"count": reading.count * steps, "lists": reading.lists * steps}
        total = None if reading.total is None else reading.total * steps
        grown = msgspec.structs.replace(reading, total=total, **counts)
        if steps:
            yield Series(parse(reading.metric), labels, grown, family=family)


@cache
def policy_readings() -> dict[str, Reading]:
    """What 1,000 lists say of both policies."""
    metrics = [text.format(policy) for policy in POLICIES for text in _ESTIMATES]
    log = Accumulator(*metrics, intervals=Intervals())
    log.update_many(_lists(random.Random(3)))
    return log.compute()


def _lists(draw: random.Random) -> Iterator[Event]:
    for number in range(1_000):
        values = {name: [mean * draw.uniform(0.9, 1.1)] for name, mean in POLICIES.items()}
        values |= {"propensity": [0.5], "predicted": [0.2], "expected": [0.25]}
        clicked = ["a"] * (draw.random() < 0.3)
        user = f"u{number % 250}"
        yield Event(recommendations=["a"], interactions=clicked, user=user, per_item=values)
