"""Metrics that raise for a list with "poison"."""

from __future__ import annotations

from streameval import metric
from streameval.events import Event

PICKY = f"{__name__}:picky"
"""How a configuration names it."""


@metric(bounds=(0, 1), source="tests")
def picky(event: Event) -> float:
    if "poison" in event.recommendations:
        raise ZeroDivisionError("by zero")
    return float(len(event.recommendations) > 1)
