"""The settings of a watch for changes, and what is wrong with them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from typing import Final

import msgspec

from streameval.engine.analysis import Kept, Problem
from streameval.events.errors import ConfigError, OptionError, suggestion, unknown_name_problem
from streameval.events.problems import check_types
from streameval.inference.days import date_of, number_of_day

WEEKS: Final = "weeks"
OTHERS: Final = "others"

REFERENCE_WEEKS: Final = 4
"""Earlier days of a weekday that make up its reference: fewer move by chance, more are past."""

_LEAST: Final = 7
"""Shortest `once_in`, days."""
_LONGEST: Final = 366
"""Most days of an entry of `ignore`."""
_DAYS: Final = re.compile(r"[0-9]{1,5}d")


class ChangeSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which series are watched for changes, and how often chance alone may raise an alarm.

    Attributes:
        metrics: the metrics to watch; empty: all with intervals.
        label: label whose values are watched besides the total; None: only the total.
        against: what values of the label are compared with: "weeks", "others" or a value. The
            total is compared with weeks.
        tolerate: relative change that does not count.
        once_in: how long chance alone takes for an alarm, over all series: whole days, like "91d".
        mix: segment by which the audience is held constant; None: it is not.
        rollouts: label whose new values are suspects, like a model; None: none.
        accepted: days from which on a change is the new normal.
        ignore: days that count nowhere, like "2026-12-24", or from one to another, both inclusive,
            like "2026-12-24/2027-01-01".

    Raises:
        OptionError: a value is not allowed.

    Example:
        >>> ChangeSettings(once_in="365d").days
        365
    """

    metrics: list[str] = []
    label: str | None = None
    against: str = OTHERS
    tolerate: float = 0.01
    once_in: str = "91d"
    mix: str | None = None
    rollouts: str | None = None
    accepted: list[date] = []
    ignore: list[str] = []

    def __post_init__(self) -> None:
        check_types(self)
        if not (_DAYS.fullmatch(self.once_in) and self.days >= _LEAST):
            self._refuse("once_in", f"give whole days, from {_LEAST}d on, like 91d or 365d")
        if not 0.0 <= self.tolerate < 1.0:
            self._refuse("tolerate", "give a share from 0 to below 1, like 0.01")
        if self.ignored is None:
            self._refuse("ignore", 'give days, like "2026-12-24" or "2026-12-24/2027-01-01"')
        if not self.against:
            self._refuse("against", f'give "{WEEKS}", "{OTHERS}" or a value of the label')

    def _refuse(self, key: str, remedy: str) -> None:
        raise OptionError(key, f"found {getattr(self, key)!r:.80}; {remedy}.")

    @property
    def days(self) -> int:
        """`once_in` in days."""
        return int(self.once_in[:-1])

    @property
    def ignored(self) -> frozenset[int] | None:
        """The days of `ignore`, since 1970-01-01 (UTC); None if an entry names none."""
        days = set[int]()
        for entry in self.ignore:
            try:
                ends = [number_of_day(date.fromisoformat(day)) for day in entry.split("/")]
            except ValueError:
                return None
            if len(ends) > 2 or not 0 <= ends[-1] - ends[0] < _LONGEST:
                return None
            days.update(range(ends[0], ends[-1] + 1))
        return frozenset(days)

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


def change_problems(changes: ChangeSettings, kept: Kept) -> Iterator[Problem]:
    """Changes without intervals or event time, or of what is not counted."""
    if kept.intervals is None:
        yield "changes", "changes need intervals; add intervals = { confidence = 0.95 }."
    if not kept.timed:
        yield "changes", "changes need event time; name its field in [event] time."
    for key, name, chosen, what in (
        ("label", changes.label, kept.labels, "`labels`"),
        ("rollouts", changes.rollouts, kept.labels, "`labels`"),
        ("mix", changes.mix, kept.segments, "`segments`"),
    ):
        if name is not None and (problem := unknown_name_problem(name, chosen, what)):
            yield f"changes.{key}", f"{name!r} is {problem}"
    choices = _watchable(kept)
    if not choices:
        yield "changes.metrics", "no metric has an interval, so none can be watched."
    for index, name in enumerate(changes.metrics):
        if name not in choices and choices:
            problem = f"{name!r} is not counted by user; choose one of {', '.join(choices)}."
            yield f"changes.metrics[{index}]", f"{problem}{suggestion(name, choices)}"


def _watchable(kept: Kept) -> list[str]:
    """The metrics that have sums by user group, by their text."""
    families = [family.metrics for family in kept.families if family.segment is None]
    texts = [metric.text for metrics in families for metric in metrics if metric.has_interval]
    return list(dict.fromkeys(texts))
