"""Thread-safe accumulators."""

from __future__ import annotations

import threading
from typing import Any, Self

from streameval.accumulator import Accumulator


class SharedAccumulator(Accumulator):
    """An Accumulator with a lock, which several threads may use at once.

    Only one thread at a time may use a plain `Accumulator`, until its `share` is called. `copy`
    gives a plain one.

    Example:
        >>> from concurrent.futures import ThreadPoolExecutor
        >>> clicks = SharedAccumulator("hit_rate@1")
        >>> with ThreadPoolExecutor(4) as threads:
        ...     done = list(threads.map(lambda _: clicks.update(["a"], ["a"]), range(1000)))
        >>> clicks.read("hit_rate@1").count
        1000
    """

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Add the lock here rather than in __init__, which unpickling does not call."""
        made = super().__new__(cls)
        made.lock = threading.RLock()
        return made
