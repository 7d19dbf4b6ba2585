"""The settings of a watch for changes."""

from __future__ import annotations

import re
from datetime import date
from typing import Final

import msgspec

from streameval.events.errors import ConfigError, OptionError
from streameval.events.problems import check_types
from streameval.inference.days import date_of, number_of_day

WEEKS: Final = "weeks"
OTHERS: Final = "others"

_LEAST: Final = 7
"""Shortest `once_in`, days."""
_DAYS: Final = re.compile(r"[0-9]{1,5}d")


class ChangeSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which series are watched for changes, and how often chance alone may raise an alarm.

    Attributes:
        metrics: the metrics to watch; empty: all with intervals.
        label: label whose values are watched besides the total; None: only the total.
        against: what values of the label are compared with: "weeks", "others" or a value. The
            total is compared with weeks.
        weeks: earlier days of a weekday that make up its reference.
        tolerate: relative change that does not count.
        once_in: how long chance alone takes for an alarm, over all series: whole days, like "91d".
        mix: segment by which the audience is held constant; None: it is not.
        rollouts: label whose new values are suspects, like a model; None: none.
        accepted: days from which on a change is the new normal.

    Raises:
        OptionError: a value is not allowed.

    Example:
        >>> ChangeSettings(once_in="365d").days
        365
    """

    metrics: list[str] = []
    label: str | None = None
    against: str = OTHERS
    weeks: int = 4
    tolerate: float = 0.01
    once_in: str = "91d"
    mix: str | None = None
    rollouts: str | None = None
    accepted: list[date] = []

    def __post_init__(self) -> None:
        check_types(self)
        if not (_DAYS.fullmatch(self.once_in) and self.days >= _LEAST):
            self._refuse("once_in", f"give whole days, from {_LEAST}d on, like 91d or 365d")
        if not 0.0 <= self.tolerate < 1.0:
            self._refuse("tolerate", "give a share from 0 to below 1, like 0.01")
        if not 1 <= self.weeks <= 8:
            self._refuse("weeks", "give a number from 1 to 8, like 4")
        if not self.against:
            self._refuse("against", f'give "{WEEKS}", "{OTHERS}" or a value of the label')

    def _refuse(self, key: str, remedy: str) -> None:
        raise OptionError(key, f"found {getattr(self, key)!r:.80}; {remedy}.")

    @property
    def days(self) -> int:
        """`once_in` in days."""
        return int(self.once_in[:-1])

    def check(self, newest: int | None, where: str = "changes") -> None:
        """Refuse days that are accepted before they come.

        `newest`: the newest event day, since 1970-01-01 (UTC); None if unknown.

        Raises:
            ConfigError: one is in the future.
        """
        for day in self.accepted:
            if newest is not None and number_of_day(day) > newest:
                latest = date_of(newest)
                problem = f"{day} is in the future; give a day up to {latest}, the newest of events"
                raise ConfigError(where, "accepted", f"{problem}.")
