"""How often one may ask: a bucket of tokens that fills slowly."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from streameval.errors import ConfigError
from streameval.exporters.web.webconfig import RateLimit

_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART: Final = r"(?P<number>\d+(?:\.\d*)?|\.\d+)(?P<unit>ns|us|µs|ms|s|m|h)"


class Bucket:
    """Allows `burst` requests at once, and one more every `interval` seconds.

    Args:
        interval: above 0.
        burst: at least 1.
        now: seconds that never go back.

    Example:
        >>> seconds = iter([0.0, 0.0, 0.0, 0.0, 5.0])
        >>> bucket = Bucket(5.0, 2, lambda: next(seconds))
        >>> [bucket.allows() for _ in range(4)]
        [True, True, False, True]
    """

    def __init__(self, interval: float, burst: int, now: Callable[[], float]) -> None:
        self._interval = interval
        self._burst = burst
        self._now = now
        self._tokens = float(burst)
        self._at = now()

    def allows(self) -> bool:
        """Whether one more request may come now."""
        now = self._now()
        self._tokens = min(self._burst, self._tokens + (now - self._at) / self._interval)
        self._at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


def bucket(path: str, options: RateLimit, now: Callable[[], float]) -> Bucket | None:
    """The bucket that a web configuration file asks for; None where there is no limit.

    Raises:
        ConfigError: the interval is no duration, or nothing would be allowed at all.
    """
    interval = _seconds(options.interval)
    if interval is None:
        problem = f"found {options.interval!r}; give a duration such as '100ms', '1s' or '1m30s'."
        raise ConfigError(path, "rate_limit.interval", problem)
    if interval == 0:
        return None
    if options.burst < 1:
        problem = "found 0, which refuses every request; give a whole number of at least 1."
        raise ConfigError(path, "rate_limit.burst", problem)
    return Bucket(interval, options.burst, now)


def _seconds(text: str) -> float | None:
    if text == "0":
        return 0.0
    if not re.fullmatch(
        f"(?:{_PART.replace('?P<number>', '?:').replace('?P<unit>', '?:')})+", text
    ):
        return None
    return sum(float(each["number"]) * _UNITS[each["unit"]] for each in re.finditer(_PART, text))
