"""The wish to stop: a flag that a signal sets, so that no work is cut in two."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Stop:
    """Whether to stop: asked by SIGTERM or SIGINT, or because the time is over.

    Args:
        seconds: stop after so long; None means only when asked.
        clock: seconds that only grow.
    """

    def __init__(
        self, seconds: float | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._deadline = None if seconds is None else clock() + seconds
        self.signal: str | None = None

    def __call__(self) -> bool:
        """Whether it is time to stop."""
        over = self._deadline is not None and self._clock() >= self._deadline
        return over or self.signal is not None

    @contextmanager
    def on_signals(self) -> Iterator[Stop]:
        """Within, the first signal only asks; a second one ends the process at once."""
        before = {each: signal.signal(each, self._ask) for each in _SIGNALS}
        try:
            yield self
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    def _ask(self, number: int, _frame: FrameType | None) -> None:
        self.signal = signal.Signals(number).name
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_DFL)
