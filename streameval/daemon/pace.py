"""How often a snapshot is taken: at most once a second, and for no more than 5 % of the time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

_SHORTEST = 1.0
_COST_MULTIPLE = 20.0


class Pace:
    """Says when something costly is due again, by what it cost the last two times.

    The cheaper of the two counts: one that was slow by chance, or the first after a restart that
    reads everything, does not make the next one late.

    Args:
        clock: seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._next = clock()
        self._before = 0.0

    @property
    def remaining(self) -> float:
        """Seconds until it is due; 0 when it is."""
        return max(0.0, self._next - self._clock())

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Around doing it; the next one is due max(1 s, 20 x the cost) after its start."""
        start = self._clock()
        yield
        cost = self._clock() - start
        self._next = start + max(_SHORTEST, _COST_MULTIPLE * min(cost, self._before))
        self._before = cost
