"""How often snapshots and checkpoints are taken."""

from __future__ import annotations

from typing import Final

_COST_MULTIPLE: Final = 20.0


class Pace:
    """Paces costly work, so that it takes at most 5 % of the time.

    The cheaper of the last two times counts: one that was slow by chance, or the first after a
    restart that reads or writes everything, does not delay the next.

    Args:
        shortest: seconds from one beginning to the next, however little it costs.

    Attributes:
        interval: seconds from the beginning of the last time to the next.

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
        """The last time took so many seconds."""
        self.interval = max(self._shortest, _COST_MULTIPLE * min(cost, self._before))
        self._before = cost
