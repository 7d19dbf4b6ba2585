"""The three ways in which the daemon meets time, so that a test can turn the hands itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple


class Clock(NamedTuple):
    """Where time comes from.

    Attributes:
        wall: seconds since the epoch, for people.
        monotonic: seconds that only grow, for measuring.
        sleep: waits so many seconds.
    """

    wall: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
