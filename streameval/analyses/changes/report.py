"""Settings of a watch for changes, and its verdicts, as data."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date
from typing import Final

import msgspec
from msgspec.structs import replace

from streameval.engine.analysis import CountedSetup, KeyProblem
from streameval.events.errors import ConfigError
from streameval.events.problems import check_types, percentage_hint
from streameval.events.spelling import suggestion, unknown_name_problem
from streameval.inference.codes import Code
from streameval.inference.days import date_of, number_of_day

WEEKS: Final = "weeks"
OTHERS: Final = "others"

REFERENCE_WEEKS: Final = 4
"""Earlier days of a weekday that make up its reference: fewer vary by chance, more are outdated."""

_LEAST: Final = 7
"""Shortest `once_in`, days."""
_LONGEST: Final = 366
"""Most days of an entry of `ignore`."""
_DAYS: Final = re.compile(r"[0-9]{1,5}d")


class ChangeSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Series to watch for changes, and the rate at which chance alone may raise an alarm.

    Attributes:
        metrics: the metrics to watch; empty: all with intervals.
        label: label whose values are watched in addition to the total; None: only the total.
        against: what values of the label are compared with: "weeks", "others" or a value. The
            total is compared with weeks.
        tolerate: relative change that does not count.
        once_in: chance alone raises at most one alarm in this time, over all series: whole days,
            like "91d".
        mix: segment by which the audience is held constant; None: it is not.
        rollouts: label whose new values are suspects, like a model; None: no suspects.
        accepted: days on which a change became the new normal.
        ignore: days that count nowhere, like "2026-12-24", or from one to another, both inclusive,
            like "2026-12-24/2027-01-01".

    Raises:
        ConfigError: a value is not allowed.

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
        if not _is_tolerable(self.tolerate):
            hint = percentage_hint(self.tolerate, _is_tolerable)
            self._refuse("tolerate", f"give a share from 0 to below 1, like 0.01{hint}")
        if self.ignored is None:
            self._refuse("ignore", 'give days, like "2026-12-24" or "2026-12-24/2027-01-01"')
        if not self.against:
            self._refuse("against", f'give "{WEEKS}", "{OTHERS}" or a value of the label')

    def _refuse(self, key: str, remedy: str) -> None:
        raise ConfigError("", key, f"found {getattr(self, key)!r:.80}; {remedy}.")

    @property
    def days(self) -> int:
        """`once_in` in days."""
        return int(self.once_in[:-1])

    @property
    def ignored(self) -> frozenset[int] | None:
        """The days of `ignore`, since 1970-01-01; None if an entry names none."""
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

        `newest`: the newest event day, since 1970-01-01; None if unknown.

        Raises:
            ConfigError: one is in the future.
        """
        for day in self.accepted:
            if newest is not None and number_of_day(day) > newest:
                latest = date_of(newest)
                problem = f"{day} is in the future; give a day up to {latest}, the newest of events"
                raise ConfigError(where, "accepted", f"{problem}.")


def change_problems(changes: ChangeSettings, stored: CountedSetup) -> Iterator[KeyProblem]:
    """Changes without intervals or event time, or of what is not counted."""
    if stored.intervals is None:
        yield "changes", "changes need intervals; add intervals = { confidence = 0.95 }."
    if not stored.timed:
        yield "changes", "changes need event time; name its field in [event] time."
    for key, name, names, what in (
        ("label", changes.label, stored.labels, "`labels`"),
        ("rollouts", changes.rollouts, stored.labels, "`labels`"),
        ("mix", changes.mix, stored.segments, "`segments`"),
    ):
        if name is not None and (problem := unknown_name_problem(name, names, what)):
            yield f"changes.{key}", f"{name!r} is {problem}"
    families = [family.metrics for family in stored.families if family.segment is None]
    # Those with sums by user group.
    texts = [metric.text for metrics in families for metric in metrics if metric.has_interval]
    choices = list(dict.fromkeys(texts))
    if not choices:
        yield "changes.metrics", "no metric has an interval, so none can be watched."
    for index, name in enumerate(changes.metrics):
        if name not in choices and choices:
            problem = f"{name!r} is not counted by user; choose one of {', '.join(choices)}."
            yield f"changes.metrics[{index}]", f"{problem}{suggestion(name, choices)}"


def _is_tolerable(share: float) -> bool:
    return 0.0 <= share < 1.0


class ChangeVerdict(Code):
    """The verdicts; CHANGED is for a metric without a better direction."""

    WORSE = "worse"
    BETTER = "better"
    CHANGED = "changed"
    NO_CHANGE = "no change seen"
    HISTORY_TOO_SHORT = "history too short"
    TOO_FEW_USERS = "too few users"
    DO_NOT_TRUST = "do not trust"


CHANGED: Final = frozenset({ChangeVerdict.WORSE, ChangeVerdict.BETTER, ChangeVerdict.CHANGED})


class Rollout(msgspec.Struct, frozen=True, kw_only=True):
    """A new value of the label `rollouts`.

    Attributes:
        day: first day on which it had 5 % of the lists.
        value: of the label.
    """

    day: date
    value: str


class ChangeDay(msgspec.Struct, frozen=True, kw_only=True):
    """One day of a series.

    Attributes:
        day: event day.
        value: mean of the metric; None without lists.
        low: lower end of the range that is usual for this day; None if unknown.
        high: upper end.
    """

    day: date
    value: float | None
    low: float | None = None
    high: float | None = None


class PastChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change that is over, whose days are left out.

    Attributes:
        began: its first day.
        ended: its last day.
        effect: relative change on these days.
    """

    began: date
    ended: date
    effect: float


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on one metric of one slice at the end of a day.

    Attributes:
        metric: text of the metric.
        slice: value of the label; None for all lists together.
        against: what it is compared with: "weeks", "others" or a value of the label.
        until: last day that counts; None without lists.
        effect: relative change since the day on which it most likely began; None if unknown.
        low: lower bound of the effect; None without a change.
        high: upper bound.
        since: day on which the change most likely began; None without a change.
        first: first day of the set that has 95 % of the evidence; None without a change.
        last: last day of the set.
        worse_days: chance alone shows as much evidence for "worse" at most once in so many days,
            over all series; up to 1e300. Below 28 days there is no evidence. For any change if
            neither direction is better. None if the series is not judged.
        better_days: the same for "better"; None if no direction is better.
        once_in: evidence in days from which on there is a change.
        lists_ratio: lists of the last day, relative to the mean of its weekday in the four weeks
            before; None without lists there.
        raw: effect with the audience's part; None unless the audience is held constant.
        mix: part of `raw` that is the audience; None where `raw` is None.
        rollouts: rollouts of the last weeks, the oldest first.
        past: changes that are over, the strongest first; all else is judged without their days.
        days: the last 63 days.
        reason: reason that the series is not judged, or None.
        verdict: worse, better, changed, no change seen, ...
        text: what happened, in a sentence or two, from `with_sentences`; else empty.

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
    past: tuple[PastChange, ...] = ()
    days: tuple[ChangeDay, ...] = ()
    reason: str | None = None
    verdict: ChangeVerdict = ChangeVerdict.HISTORY_TOO_SHORT
    text: str = ""

    @property
    def evidence_days(self) -> float | None:
        """The larger evidence in days; None if the series is not judged."""
        evidence = [days for days in (self.worse_days, self.better_days) if days is not None]
        return max(evidence, default=None)

    def distrust(self, reason: str) -> Change:
        """The series without its verdict and evidence, for a reason."""
        return replace(
            self,
            verdict=ChangeVerdict.DO_NOT_TRUST,
            reason=reason,
            **dict.fromkeys(
                ("low", "high", "since", "first", "last", "worse_days", "better_days"), None
            ),
        )


class ChangesReport(msgspec.Struct, frozen=True, kw_only=True):
    """The series that are watched for changes, at the end of the last closed day.

    Attributes:
        settings: what is watched, and what is an alarm; the usual ones without [changes].
        until: the day; None before the first look, and without [changes].
        changes: one for each metric and slice, the total first; empty in the same cases.
        time_zone: zone of all days; None for UTC.
    """

    settings: ChangeSettings = ChangeSettings()
    until: date | None = None
    changes: Sequence[Change] = ()
    time_zone: str | None = None

    def distrust(self, reason: str) -> ChangesReport:
        """The report without verdicts, for a reason."""
        changes = [change.distrust(reason) for change in self.changes]
        return replace(self, changes=changes)
