"""The pace of snapshots and checkpoints."""

from __future__ import annotations

from typing import Final

_COST_MULTIPLE: Final = 20.0


class Pace:
    """Paces repeated work to at most 5 % of the time.

    It uses the cheaper of the last two runs: a run that is slow by chance, or the first after a
    restart, does not delay the next.

    Args:
        shortest: least seconds from the start of one run to the next.

    Attributes:
        interval: seconds from the start of the last run to the next.

    Example:
        >>> pace = Pace(1.0)
        >>> for cost in (9.0, 0.5, 0.5):
        ...     pace.note(cost)
        >>> pace.interval
        10.0
    """

    __slots__ = ("_before", "_shortest", "interval")

    def __init__(self, shortest: float) -> None:
        self.interval = self._shortest = shortest
        self._before = 0.0

    def note(self, cost: float) -> None:
        """Record the cost of the last run in seconds."""
        self.interval = max(self._shortest, _COST_MULTIPLE * min(cost, self._before))
        self._before = cost
