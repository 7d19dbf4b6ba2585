"""How often a snapshot is taken: at most once a second, and never for more than 5 % of the time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

_SHORTEST = 1.0
_COST_MULTIPLE = 20.0


class Pace:
    """Says when something costly is due again, by what it cost the last time.

    Args:
        clock: seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._next = clock()

    @property
    def remaining(self) -> float:
        """Seconds until it is due; 0 when it is."""
        return max(0.0, self._next - self._clock())

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Around doing it; the next one is due max(1 s, 20 x its cost) after its start."""
        start = self._clock()
        yield
        cost = self._clock() - start
        self._next = start + max(_SHORTEST, _COST_MULTIPLE * cost)
