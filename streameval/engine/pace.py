"""The pace of snapshots and checkpoints."""

from __future__ import annotations

import math
from typing import Final

_COST_MULTIPLE: Final = 20.0
_LEAST_MULTIPLE: Final = 2.0


class Pace:
    """Paces repeated work to at most 5 % of the time, or more where it may not wait so long.

    It uses the cheaper of the last two runs: a run that is slow by chance, or the first after a
    restart, does not delay the next.

    Args:
        shortest: least seconds from the start of one run to the next.
        longest: most seconds from the start of one run to the next, as long as the work then takes
            at most half of the time.

    Attributes:
        interval: seconds from the start of the last run to the next.

    Example:
        >>> pace = Pace(1.0)
        >>> for cost in (9.0, 0.5, 0.5):
        ...     pace.note(cost)
        >>> pace.interval
        10.0
    """

    __slots__ = ("_before", "_longest", "_shortest", "interval")

    def __init__(self, shortest: float, longest: float = math.inf) -> None:
        self.interval = self._shortest = shortest
        self._longest = longest
        self._before = 0.0

    def note(self, cost: float) -> None:
        """Record the cost of the last run in seconds."""
        cheaper, self._before = min(cost, self._before), cost
        most = max(self._longest, _LEAST_MULTIPLE * cheaper)
        self.interval = max(self._shortest, min(_COST_MULTIPLE * cheaper, most))
