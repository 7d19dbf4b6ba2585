"""The settings of a watch for changes, its verdicts as data, and what they say in words."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import date, datetime
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

from streameval.events.errors import ConfigError, MetricError, OptionError
from streameval.events.ids import is_number
from streameval.inference.days import date_of
from streameval.inference.words import percent

ChangeVerdict: TypeAlias = Literal[
    "worse",
    "better",
    "changed",
    "no change seen",
    "history too short",
    "too few users",
    "do not trust",
]
"""The verdicts; "changed" is for a metric without a better direction."""

CHANGED: Final = frozenset[ChangeVerdict]({"worse", "better", "changed"})

WEEKS: Final = "weeks"
OTHERS: Final = "others"

_LEAST: Final = 7
"""Shortest `once_in`, days."""

_EPOCH: Final = date(1970, 1, 1)
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
        once_in: Any = self.once_in
        if not (isinstance(once_in, str) and _DAYS.fullmatch(once_in) and self.days >= _LEAST):
            self._refuse("once_in", f"give whole days, from {_LEAST}d on, like 91d or 365d")
        if not (is_number(self.tolerate) and 0.0 <= self.tolerate < 1.0):
            self._refuse("tolerate", "give a share from 0 to below 1, like 0.01")
        if not (is_number(self.weeks) and 1 <= self.weeks <= 8 and self.weeks == int(self.weeks)):
            self._refuse("weeks", "give a number from 1 to 8, like 4")
        # From Python nothing has converted them.
        if not all(isinstance(day, date) for day in self.accepted):
            self._refuse("accepted", "give days, like date(2026, 3, 1)")
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


class Rollout(msgspec.Struct, frozen=True, kw_only=True):
    """A new value of the label `rollouts`.

    Attributes:
        day: first day (UTC) on which it had 5 % of the lists.
        value: of the label.
    """

    day: date
    value: str


class ChangeDay(msgspec.Struct, frozen=True, kw_only=True):
    """One day of a series.

    Attributes:
        day: event day (UTC).
        value: mean of the metric; None without lists.
        low: lower end of the range that is usual for this day; None if unknown.
        high: upper end.
    """

    day: date
    value: float | None
    low: float | None = None
    high: float | None = None


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on one metric of one slice at the end of a day.

    Attributes:
        metric: text of the metric.
        slice: value of the label; None for all lists together.
        against: what it is compared with: "weeks", "others" or a value of the label.
        until: last day that counts (UTC); None without lists.
        effect: relative change since the day on which it most likely began; None if unknown.
        low: lower bound of the effect; None without a change.
        high: upper bound.
        since: day on which the change most likely began; None without a change.
        first: first day of the set that has 95 % of the evidence; None without a change.
        last: last day of the set.
        worse_days: chance alone shows as much evidence for "worse" at most once in so many days,
            over all series; up to 1e300. Of any change, if no direction is better. None if the
            series is not judged.
        better_days: likewise for "better"; None if no direction is better.
        once_in: evidence in days from which on there is a change.
        lists_ratio: lists of the last day, relative to the mean of its weekday in the four weeks
            before; None without lists there.
        raw: effect with the audience's part; None unless the audience is held constant.
        mix: part of `raw` that is the audience; None likewise.
        rollouts: rollouts of the last weeks, the oldest first.
        days: the last 63 days.
        reason: reason that the series is not judged, or None.
        verdict: worse, better, changed, no change seen, ...

    Example:
        >>> from streameval import Accumulator, Intervals, changes
        >>> empty = Accumulator("ctr", intervals=Intervals())
        >>> changes(empty, "ctr").verdict
        'history too short'
    """

    metric: str
    slice: str | None = None
    against: str = WEEKS
    until: date | None = None
    effect: float | None = None
    low: float | None = None
    high: float | None = None
    since: date | None = None
    first: date | None = None
    last: date | None = None
    worse_days: float | None = None
    better_days: float | None = None
    once_in: float = 91.0
    lists_ratio: float | None = None
    raw: float | None = None
    mix: float | None = None
    rollouts: tuple[Rollout, ...] = ()
    days: tuple[ChangeDay, ...] = ()
    reason: str | None = None
    verdict: ChangeVerdict = "history too short"

    @property
    def evidence_days(self) -> float | None:
        """The larger evidence in days; None if the series is not judged."""
        evidence = [days for days in (self.worse_days, self.better_days) if days is not None]
        return max(evidence, default=None)

    def untrusted(self, trouble: str) -> Change:
        """The series without its verdict and evidence, for a reason."""
        return msgspec.structs.replace(
            self,
            verdict="do not trust",
            reason=trouble,
            **dict.fromkeys(
                ("low", "high", "since", "first", "last", "worse_days", "better_days"), None
            ),
        )


class ChangesReport(NamedTuple):
    """The verdicts on all series at the end of a day.

    Attributes:
        until: the day, since 1970-01-01 (UTC).
    """

    settings: ChangeSettings
    until: int
    changes: Sequence[Change]

    def untrusted(self, trouble: str) -> ChangesReport:
        """The report without verdicts, for a reason."""
        return self._replace(changes=[change.untrusted(trouble) for change in self.changes])


def changes_promise(report: ChangesReport) -> str:
    """How often chance alone leads to an alarm, and what the promise does not cover.

    Example:
        >>> changes_promise(ChangesReport(ChangeSettings(), 20_000, []))  # doctest: +ELLIPSIS
        'Chance alone leads to "worse" for any of these series at most once in 91 days. ...'
    """
    return (
        f'Chance alone leads to "worse" for any of these series at most once in '
        f"{report.settings.days:,} days. Where a series is compared with the weeks before, an "
        "unusual week can look like a change."
    )


def change_text(change: Change) -> str:
    """A verdict in a few words.

    Example:
        >>> change_text(Change(metric="ctr", slice="b", against="others", verdict="worse"))
        'worse than the others'
        >>> change_text(Change(metric="ctr", verdict="no change seen"))
        'no change seen'
    """
    if change.verdict not in CHANGED:
        return change.verdict
    than = {WEEKS: "the weeks before", OTHERS: "the others"}.get(change.against, change.against)
    joint = "against" if change.verdict == "changed" else "than"
    return f"{change.verdict} {joint} {than}"


def evidence_days_text(days: float | None) -> str:
    """Evidence in days.

    Example:
        >>> evidence_days_text(0.3), evidence_days_text(1.2), evidence_days_text(1e9)
        ('0 days', '1 day', '>1e6 days')
    """
    if days is None:
        return ""
    return ">1e6 days" if days > 1e6 else f"{days:,.0f} day{'' if round(days) == 1 else 's'}"


def chance_text(days: float) -> str:
    """How often chance alone shows as much, in words.

    Example:
        >>> chance_text(0.3), chance_text(12.4), chance_text(1e9)
        ('every day', 'once in 12 days', 'once in more than a million days')
    """
    if days < 1.5:
        return "every day"
    return f"once in {f'{days:,.0f}' if days <= 1e6 else 'more than a million'} days"


def day_text(day: date) -> str:
    """A day as people write it.

    Example:
        >>> day_text(date(2026, 3, 3))
        '3 Mar'
    """
    return f"{day.day} {day:%b}"


def sentence(change: Change) -> str:
    """What happened, in a sentence or two for people.

    Example:
        >>> day = date(2026, 3, 3)
        >>> dates = {"since": day, "first": day, "last": date(2026, 3, 4)}
        >>> change = Change(metric="ctr", slice="b", against="others", verdict="worse",
        ...     effect=-0.12, low=-0.18, high=-0.06, worse_days=2e6, **dates)
        >>> sentence(change)  # doctest: +NORMALIZE_WHITESPACE
        'ctr of b is worse than the others since 3 Mar (3 to 4 Mar): -12.0 % (-18.0 to -6.0 %).
        Chance alone shows as much at most once in more than a million days.'
    """
    name = change.metric if change.slice is None else f"{change.metric} of {change.slice}"
    if change.evidence_days is None or change.effect is None:
        because = "" if change.reason is None else f"; {change.reason}"
        return f"{name}: {change.verdict}{because}."
    chance = chance_text(change.evidence_days)
    if change.since is None or change.low is None or change.high is None:
        text = f"{name}: no change seen. Chance alone shows as much at most {chance}."
        return text + _mix_text(change)
    # Rounded outward, as in tables.
    low, high = percent(change.low, "+", math.floor), percent(change.high, "+", math.ceil)
    bounds = f"{low[:-2]} to {high}"
    since = f"since {day_text(change.since)}{set_text(change)}"
    text = f"{name} is {change_text(change)} {since}: {percent(change.effect, '+')} ({bounds})."
    text += f" Chance alone shows as much at most {chance}."
    suspects = [
        f" {rollout.value} began on {day_text(rollout.day)}."
        for rollout in change.rollouts
        if change.first is not None
        and change.last is not None
        and change.first <= rollout.day <= change.last
    ]
    return text + _mix_text(change) + "".join(suspects)


def set_text(change: Change) -> str:
    """The days on which a change may have begun, in brackets; empty if it is one."""
    if change.first is None or change.last is None or change.first == change.last:
        return ""
    same = change.first.month == change.last.month
    first = str(change.first.day) if same else day_text(change.first)
    return f" ({first} to {day_text(change.last)})"


def _mix_text(change: Change) -> str:
    if change.raw is None or change.mix is None or abs(change.mix) < 0.0005:
        return ""
    whole, audience = percent(change.raw, "+"), percent(change.mix, "+")
    return f" In all it is {whole}, of which {audience} come from another audience."


def number_of_day(day: date) -> int:
    """Days since 1970-01-01 (UTC)."""
    return (day - _EPOCH).days


def given_day(name: str, day: object) -> int:
    """The number of a day that was given as an argument; raises a MetricError if it is none."""
    # A datetime is a date, too, but may be one of another zone.
    if isinstance(day, date) and not isinstance(day, datetime):
        return number_of_day(day)
    raise MetricError(f"{name}: found {day!r:.80}; give a day, like date(2026, 3, 1)")
