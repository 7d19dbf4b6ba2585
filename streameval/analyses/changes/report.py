"""The verdicts of a watch for changes, as data."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Final, Literal, TypeAlias

import msgspec

from streameval.analyses.changes.settings import WEEKS, ChangeSettings

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


class PastChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change that is over, whose days are left out.

    Attributes:
        began: its first day (UTC).
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
        until: last day that counts (UTC); None without lists.
        effect: relative change since the day on which it most likely began; None if unknown.
        low: lower bound of the effect; None without a change.
        high: upper bound.
        since: day on which the change most likely began; None without a change.
        first: first day of the set that has 95 % of the evidence; None without a change.
        last: last day of the set.
        worse_days: chance alone shows as much evidence for "worse" at most once in so many days,
            over all series, from 28 days on, and no evidence below; up to 1e300. Of any change, if
            no direction is better. None if the series is not judged.
        better_days: likewise for "better"; None if no direction is better.
        once_in: evidence in days from which on there is a change.
        lists_ratio: lists of the last day, relative to the mean of its weekday in the four weeks
            before; None without lists there.
        raw: effect with the audience's part; None unless the audience is held constant.
        mix: part of `raw` that is the audience; None likewise.
        rollouts: rollouts of the last weeks, the oldest first.
        past: changes that are over, the strongest first; all else is judged without their days.
        days: the last 63 days.
        reason: reason that the series is not judged, or None.
        verdict: worse, better, changed, no change seen, ...
        text: what happened, in a sentence or two, in a report that is `told`; else empty.

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
    verdict: ChangeVerdict = "history too short"
    text: str = ""

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


class ChangesReport(msgspec.Struct, frozen=True, kw_only=True):
    """The series that are watched for changes, at the end of the last closed day.

    Attributes:
        settings: what is watched, and what is an alarm; the usual ones without [changes].
        until: the day (UTC); None before the first look, and without [changes].
        changes: one for each metric and slice, the total first; empty likewise.
    """

    settings: ChangeSettings = ChangeSettings()
    until: date | None = None
    changes: Sequence[Change] = ()

    def untrusted(self, trouble: str) -> ChangesReport:
        """The report without verdicts, for a reason."""
        changes = [change.untrusted(trouble) for change in self.changes]
        return msgspec.structs.replace(self, changes=changes)
