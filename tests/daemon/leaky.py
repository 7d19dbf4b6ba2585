"""A metric that raises an error with the user's id in its message."""

from __future__ import annotations

from streameval import metric
from streameval.events import Event

LEAKY = f"{__name__}:leaky"
"""How a configuration names it."""


@metric(bounds=(0, 1), source="tests")
def leaky(event: Event) -> float:
    if "leak" in event.recommendations:
        raise KeyError(event.user)
    return 1.0
