"""Judge if a metric changed, since when, and how surely: verdicts on closed event days.

Each day on which a change may have begun has an e-value: the bet that it began then. Their sum is
compared with the days that chance alone would take to reach it; see `docs/explanation`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import date
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from streameval.accumulator import Accumulator
from streameval.accumulator.inputs import check_same_zone
from streameval.accumulator.kinds.groups import not_comparable
from streameval.accumulator.objections import objections_to
from streameval.accumulator.overlap import clause_of
from streameval.analyses.changes.report import (
    CHANGED,
    OTHERS,
    REFERENCE_WEEKS,
    WEEKS,
    Change,
    ChangeDay,
    ChangeSettings,
    ChangeVerdict,
    PastChange,
    Rollout,
)
from streameval.analyses.changes.shifts import (
    LATEST_DAYS,
    DailySums,
    DaySpan,
    Shift,
    Shifts,
    first_day,
)
from streameval.catalogue import metric_of
from streameval.catalogue.metric import Metric
from streameval.engine.windows.labels import NOT_VALUES
from streameval.events.errors import MetricError
from streameval.events.ids import is_number
from streameval.events.saved_states import unlike
from streameval.inference.days import date_of, number_of_day, require_day
from streameval.inference.interval_formulas import (
    LARGEST_EVIDENCE,
    MOST_ANONYMOUS,
    half_width,
    log_evidence,
    normal_reach,
    student_reach,
)
from streameval.inference.words import percent
from streameval.statistics.arrays import IntArray
from streameval.statistics.intervals import NOBODY, GroupSums, Intervals

DAYS_IN_REPORT: Final = 63
"""Days of `Change.days`."""

_SUSPECT: Final = float(LATEST_DAYS)
"""Weight of a day on which a rollout began."""

_CERTAIN: Final = 0.95
"""Share of the evidence in the days on which a change may have begun."""

_MISSED: Final = 0.05
"""How often bounds of an effect miss it, over all the days on which it may have begun."""

_BAND: Final = 1.959963984540054

_LATEST_PULSE: Final = 35
"""Days on which a change that is over may have begun."""

_PULSES: Final = (1, 2, 3, 4, 5, 7, 10, 14, 21, 28)
"""Days that such a change may have lasted."""

_MOST_PAST: Final = 3
"""Changes that are over, of one series."""

_NOTHING_LEFT: Final = 36.0
"""Logarithm of a fall of which nothing is left in a float."""

_HALVINGS: Final = 44
"""Steps to the near bound of a change, which is then known to 1e-12."""

_LARGEST_LOG: Final = math.log(LARGEST_EVIDENCE)


class WatchedSlice(NamedTuple):
    """The sums of one metric in one slice.

    Attributes:
        sums: of all its lists.
        strata: of each stratum of the audience; empty if it is not held constant.
        objection: the reason, in a sentence, not to judge an estimate for another policy; or None.
    """

    sums: GroupSums
    strata: Sequence[GroupSums] = ()
    reason_not_judged: str | None = None


class Traffic(NamedTuple):
    """The lists of a slice by day: days ascending, lists, and lists without a user."""

    days: IntArray
    list_counts: IntArray
    nameless: IntArray

    @property
    def by_day(self) -> dict[int, int]:
        """The lists of each day."""
        return dict(zip(self.days.tolist(), self.list_counts.tolist(), strict=True))


class WatchedSeries(NamedTuple):
    """One metric of one slice, and what it is compared with.

    Attributes:
        slice: value of the label; None for all lists together.
        other: the slice that it is compared with; None for earlier weeks only.
        rollouts: day, since 1970-01-01, and value.
    """

    metric: str
    slice: str | None
    against: str
    higher_is_better: bool | None
    arm: WatchedSlice
    other: WatchedSlice | None
    traffic: Traffic
    rollouts: Sequence[tuple[int, str]] = ()


class Look(NamedTuple):
    """One series at the end of a day, before it is judged together with others.

    Attributes:
        until: the day, since 1970-01-01.
        shifts: since each day on which a change may have begun; empty if it is not judged.
        raw: those with the audience's part; empty if the audience is not held constant.
        sums: the series by day; None without lists.
        judged: the series by day that the shifts are of, with the audience held constant if it is.
        unjudged: the verdict and its reason, if it is not judged.
    """

    series: WatchedSeries
    until: int
    shifts: Sequence[Shift] = ()
    raw: Sequence[Shift] = ()
    sums: Shifts | None = None
    judged: Shifts | None = None
    unjudged: tuple[ChangeVerdict, str] | None = None


def look(
    series: WatchedSeries,
    until: int,
    settings: ChangeSettings,
    past: frozenset[int] = frozenset(),
) -> Look:
    """The shifts of a series at the end of a day; depends only on the days up to then.

    `past`: days that are left out, besides those that are ignored.
    """
    slices = [series.arm, *([series.other] if series.other is not None else [])]
    raw = _shifts_of([[part.sums] for part in slices], until, settings, past)
    seen = Look(series, until, sums=raw)
    if series.slice in NOT_VALUES:
        return seen._replace(unjudged=(ChangeVerdict.TOO_FEW_USERS, "values that are not a slice"))
    traffic = series.traffic
    compared = (traffic.days <= until) & (traffic.days > until - 2 * LATEST_DAYS)
    lists, nameless = traffic.list_counts[compared].sum(), traffic.nameless[compared].sum()
    if float(nameless) / max(float(lists), 1.0) > MOST_ANONYMOUS:
        reason = f"more than {percent(MOST_ANONYMOUS)} of the lists do not name their user"
        return seen._replace(unjudged=(ChangeVerdict.DO_NOT_TRUST, reason))
    for part in slices:
        if part.reason_not_judged is not None:
            return seen._replace(
                unjudged=(ChangeVerdict.DO_NOT_TRUST, clause_of(part.reason_not_judged))
            )
    divided = all(part.strata for part in slices)
    exact = raw
    if divided:
        exact = _shifts_of([part.strata for part in slices], until, settings, past)
    shifts = exact.latest() if exact is not None else []
    if exact is None or not exact.is_long:
        later = ", and some weeks after an accepted day" if settings.accepted else ""
        reason = f"it needs 22 days with lists{later}"
        if series.other is not None and not series.other.sums.days.size:
            reason = "the series to compare with has no lists"
        return seen._replace(unjudged=(ChangeVerdict.HISTORY_TOO_SHORT, reason))
    if not any(shift.is_usable for shift in shifts):
        reason = "the equivalent of fewer than 12 equally active ones, or the metric did not vary"
        return seen._replace(unjudged=(ChangeVerdict.TOO_FEW_USERS, reason))
    raw_shifts = raw.latest() if divided and raw is not None else ()
    return seen._replace(shifts=shifts, raw=raw_shifts, judged=exact)


def _shifts_of(
    slices: Sequence[Sequence[GroupSums]],
    until: int,
    settings: ChangeSettings,
    past: frozenset[int],
) -> Shifts | None:
    """The shifts of strata, of a slice and maybe another one; None without lists."""
    firsts = [first_day(strata, until) for strata in slices]
    begun = [first for first in firsts if first is not None]
    if len(begun) < len(slices):
        return None
    left_out = past | (settings.ignored or frozenset())
    arms = [DailySums.of(strata, max(begun), until).without(left_out) for strata in slices]
    accepted = [number_of_day(day) for day in settings.accepted]
    return Shifts(arms, REFERENCE_WEEKS, accepted)


def judge_changes(
    looks: Sequence[Look], settings: ChangeSettings, precision: float, *, detailed: bool = False
) -> list[Change]:
    """The verdicts on all series together, which share the rate of false alarms.

    `precision`: relative change at which the evidence is largest. `detailed`: with the days of
    every series, and the usual range of those that changed and of the total.
    """
    judged = sum(seen.unjudged is None for seen in looks)
    bets = _Bets(settings, precision, max(judged, 1))
    return [_judge(seen, bets, detailed=detailed) for seen in looks]


class _Bets(NamedTuple):
    """The bets that a change began on some day, at one rate of false alarms for all series."""

    settings: ChangeSettings
    precision: float
    series: int

    @property
    def alpha(self) -> float:
        """One over the evidence that an alarm needs."""
        return 1.0 / (self.settings.days * self.series)

    def evidence(
        self,
        shifts: Sequence[Shift],
        sign: float,
        suspects: frozenset[int],
        beyond: float | None = None,
    ) -> float:
        """The evidence in days for a rise (1) or a fall (-1).

        `beyond`: size from which on an effect counts; by default that which is tolerated.
        """
        total = 0.0
        for shift in shifts:
            weight = _SUSPECT if shift.day in suspects else 1.0
            total += weight * math.exp(min(self._of(shift, sign, beyond), _LARGEST_LOG))
        return min(total / self.series, LARGEST_EVIDENCE)

    def _of(self, shift: Shift, sign: float, beyond: float | None = None) -> float:
        """The logarithm of the e-value of one day; 0 if it says nothing."""
        if not shift.is_usable:
            return 0.0
        z = self._z(shift, sign, beyond)
        return log_evidence(z, self.alpha, shift.error / self.precision)

    def _z(self, shift: Shift, sign: float, beyond: float | None = None) -> float:
        """Distance of an effect beyond a size, as a normal value; at least 0."""
        least = self.settings.tolerate if beyond is None else beyond
        if shift.fell and beyond is not None:
            # Its effect is a relative difference, and no logarithm.
            least = -math.expm1(-beyond)
        return normal_reach(max(0.0, sign * shift.effect - least) / shift.error, shift.freedom)

    def pulse(self, series: Shifts) -> tuple[Shift, int] | None:
        """The surest of the changes that are over, and its last day; None if none is.

        Its days differ surely from those before; those after it differ by less than half as much;
        and a change that lasts until today explains the days far worse.
        """
        stop = series.days
        spans = [
            DaySpan(begin, begin, begin + length)
            for begin in range(max(1, stop - _LATEST_PULSE), stop)
            for length in _PULSES
            if begin + length < stop
        ]
        sure = []
        for span, pulse in zip(spans, series.between(spans), strict=True):
            if pulse is not None and pulse.is_usable:
                log = self._of(pulse, math.copysign(1.0, pulse.effect))
                if log >= math.log(LATEST_DAYS / self.alpha):
                    sure.append((log, span, pulse))
        sure.sort(key=lambda candidate: (-candidate[0], candidate[1]))
        tails = series.between([span._replace(start=span.stop, stop=stop) for _, span, _ in sure])
        steps = series.between([span._replace(stop=stop) for _, span, _ in sure])
        for (_, span, pulse), tail, step in zip(sure, tails, steps, strict=True):
            if tail is None or step is None or not (tail.is_usable and step.is_usable):
                continue
            sign = math.copysign(1.0, pulse.effect)
            lasting = self._z(step, sign) if sign * step.effect > 0 else 0.0
            if abs(tail.effect) + _BAND * tail.error <= abs(pulse.effect) / 2.0 and (
                self._z(pulse, sign) ** 2 - lasting**2
            ) / 2.0 >= math.log(LATEST_DAYS):
                return pulse, series.first + span.stop - 1
        return None

    def began(self, shifts: Sequence[Shift], sign: float) -> list[tuple[Shift, float]]:
        """The shifts in a direction with their share of the evidence, the likeliest first.

        It is taken of the lift, as a halved value doubles the error of its logarithm.
        """
        usable = [shift for shift in shifts if shift.is_usable and sign * shift.effect > 0]
        logs = [self._of_lift(shift) for shift in usable]
        most = max(logs, default=0.0)
        powers = [math.exp(log - most) for log in logs]
        pairs = zip(usable, (power / sum(powers) for power in powers), strict=True)
        return sorted(pairs, key=lambda pair: (-pair[1], pair[0].day))

    def _of_lift(self, shift: Shift) -> float:
        """The logarithm of the e-value of a lift; a rise counts as the fall that would undo it."""
        size, error = abs(shift.lift), shift.lift_error
        if shift.effect > 0:
            size, error = -math.expm1(-shift.effect), shift.error * math.exp(-shift.effect)
        z = normal_reach(size / error, shift.freedom)
        return log_evidence(z, self.alpha, error / self.precision)

    def bounds(
        self, shift: Shift, shifts: Sequence[Shift], suspects: frozenset[int], needed: float
    ) -> tuple[float, float]:
        """The bounds of a relative change since the day of a shift, however often one looks.

        The near one is that of the verdict: an effect counted from there on raises no alarm.

        `needed`: evidence in days that is an alarm in the direction of the shift.
        """
        sign, inner = math.copysign(1.0, shift.effect), self.settings.tolerate
        near = max(_NOTHING_LEFT if shift.fell else abs(shift.effect), inner)
        for _ in range(_HALVINGS):
            middle = (inner + near) / 2.0
            if self.evidence(shifts, sign, suspects, middle) >= needed:
                inner = middle
            else:
                near = middle
        if shift.fell:
            return -1.0, math.expm1(-near)
        half = half_width(
            shift.error, shift.freedom, _MISSED / LATEST_DAYS, "anytime", self.precision
        )
        low, high = sorted((sign * near, shift.effect + sign * half))
        return math.expm1(low), math.expm1(min(high, 700.0))


def _judge(seen: Look, bets: _Bets, *, detailed: bool) -> Change:
    """The verdict on one series, judged again without the days of a change that is over."""
    change, past = _judge_once(seen, bets), list[PastChange]()
    left_out: frozenset[int] = frozenset()
    while change.verdict in CHANGED and seen.judged is not None and len(past) < _MOST_PAST:
        over = bets.pulse(seen.judged)
        if over is None:
            break
        pulse, last = over
        began, ended = date_of(pulse.day), date_of(last)
        past.append(PastChange(began=began, ended=ended, effect=pulse.lift))
        left_out |= frozenset(range(pulse.day, last + 1))
        seen = look(seen.series, seen.until, bets.settings, left_out)
        change = _judge_once(seen, bets)
    change = replace(change, past=tuple(past))
    if not detailed:
        return change
    banded = change.slice is None or change.verdict in CHANGED
    return replace(change, days=_days(seen, change, banded=banded))


def _judge_once(seen: Look, bets: _Bets) -> Change:
    series, once_in = seen.series, float(bets.settings.days)
    lists = series.traffic.by_day
    days = range(seen.until - 7, seen.until - LATEST_DAYS - 1, -7)
    usual = [lists[day] for day in days if lists.get(day)][:REFERENCE_WEEKS]
    fields: dict[str, Any] = {
        "metric": series.metric,
        "slice": series.slice,
        "against": series.against,
        "until": date_of(seen.until),
        "once_in": once_in,
        "lists_ratio": lists.get(seen.until, 0) * len(usual) / sum(usual) if usual else None,
        "rollouts": tuple(
            Rollout(day=date_of(day), value=value)
            for day, value in series.rollouts
            if seen.until - DAYS_IN_REPORT < day <= seen.until
        ),
    }
    if seen.unjudged is not None:
        verdict, reason = seen.unjudged
        return Change(**fields, verdict=verdict, reason=reason)
    suspects = frozenset(day for day, _ in series.rollouts)
    rise, fall = (bets.evidence(seen.shifts, sign, suspects) for sign in (1.0, -1.0))
    higher, better = series.higher_is_better, None
    if higher is None:
        verdict, worse = ChangeVerdict.CHANGED, (rise + fall) / 2.0
    else:
        better, worse = (rise, fall) if higher else (fall, rise)
        verdict = ChangeVerdict.BETTER if better >= worse else ChangeVerdict.WORSE
    if max(worse, better or 0.0) < once_in:
        verdict = ChangeVerdict.NO_CHANGE
    fields |= {"verdict": verdict, "worse_days": worse, "better_days": better}
    shifts = seen.shifts
    if seen.raw and verdict not in CHANGED:
        # Without a change, the audience may still hide or feign one.
        shifts = seen.raw
        rise, fall = (bets.evidence(shifts, sign, suspects) for sign in (1.0, -1.0))
    sign = 1.0 if rise > fall else -1.0
    began = bets.began(shifts, sign) or bets.began(shifts, -sign)
    since = began[0][0].day if began else None
    shift = next((shift for shift in seen.shifts if shift.day == since), None)
    if since is None or shift is None or not shift.is_usable:
        return Change(**fields)
    raw = next((shift.lift for shift in seen.raw if shift.day == since), None)
    fields |= {"effect": shift.lift, "raw": raw, "mix": None if raw is None else raw - shift.lift}
    if verdict not in CHANGED:
        return Change(**fields)
    needed = once_in
    if higher is None:
        # The verdict has the mean of both directions.
        other = -math.copysign(1.0, shift.effect)
        needed = 2.0 * needed - bets.evidence(seen.shifts, other, suspects)
    low, high = bets.bounds(shift, seen.shifts, suspects, needed)
    likely, total = [], 0.0
    for candidate, share in began:
        likely.append(candidate.day)
        total += share
        if total >= _CERTAIN:
            break
    return Change(
        **fields,
        low=low,
        high=high,
        since=date_of(since),
        first=date_of(min(likely)),
        last=date_of(max(likely)),
    )


def _days(seen: Look, change: Change, *, banded: bool) -> tuple[ChangeDay, ...]:
    """The last days, with the range in which they usually are."""
    shifts, sums = seen.sums, seen.series.arm.sums
    if shifts is None:
        return ()
    values = sums.numerators.sum(axis=1), sums.denominators.sum(axis=1)
    rates = {
        day: float(value / lists)
        for day, value, lists in zip(sums.days.tolist(), *map(list, values), strict=True)
        if lists
    }
    first = max(seen.until - DAYS_IN_REPORT + 1, shifts.first)
    bands: dict[int, tuple[float, float]] = {}
    if banded:
        stop = shifts.days
        if change.since is not None:
            stop = number_of_day(change.since) - shifts.first
        indices = range(first - shifts.first, shifts.days)
        spans = [DaySpan(min(index, stop), index, index + 1) for index in indices]
        for shift in shifts.between(spans):
            if shift is not None and shift.is_usable and not shift.fell:
                half = min(student_reach(_BAND, shift.freedom) * shift.error, 700.0)
                ends = math.exp(-shift.effect - half), math.exp(-shift.effect + half)
                bands[shift.day] = ends
    days = []
    for day in range(first, seen.until + 1):
        value, low, high = rates.get(day), None, None
        if value and day in bands:
            low, high = (value * end for end in bands[day])
        days.append(ChangeDay(day=date_of(day), value=value, low=low, high=high))
    return tuple(days)


def replay_days(
    series: Sequence[WatchedSeries], until: int, settings: ChangeSettings, precision: float
) -> list[list[Change]]:
    """The verdicts at the end of each day up to `until`, the oldest first.

    The first day is the one on which the first series is judged. Each day is judged on the days up
    to it, so later events of old days are the only difference from what was seen then.
    """
    starts = [int(part.arm.sums.days[0]) for part in series if part.arm.sums.days.size]
    first = min(starts, default=until)
    by_day = [
        judge_changes([look(part, day, settings) for part in series], settings, precision)
        for day in range(max(first, until - 2 * DAYS_IN_REPORT), until + 1)
    ]
    tested = [any(change.evidence_days is not None for change in row) for row in by_day]
    return by_day[tested.index(True) :] if True in tested else by_day[-1:]


def changes(
    accumulator: Accumulator,
    metric: str,
    *,
    against: Accumulator | None = None,
    until: date | None = None,
    series: int = 1,
    rollouts: Iterable[date] = (),
    settings: ChangeSettings | None = None,
) -> Change:
    """Judge if a metric changed in the last 28 days, since when, and how surely.

    Args:
        accumulator: made with `intervals`; its events have users and times (`ts`).
        metric: one that it was made with.
        against: the accumulator to compare with, a control or all other users; None compares with
            earlier weeks only.
        until: last full day; by default the day before the newest, which may be incomplete.
        series: number of series that you look at, which share the rate of false alarms.
        rollouts: days on which something was rolled out; they are suspects.
        settings: `tolerate`, `once_in`, `accepted` and `ignore` of them are read.

    Raises:
        NotComparableError: the metric is not a mean over lists or items, or has no sums by user.
        UnlikeStateError: the numbers of groups differ.
        MetricError: an argument is not valid.
        ConfigError: a day is accepted that is in the future.

    Example:
        >>> from streameval import Accumulator, Intervals
        >>> from random import Random
        >>> accumulator, chance = Accumulator("hit_rate", intervals=Intervals()), Random(7)
        >>> for day in range(20_500, 20_536):
        ...     rate = 0.3 if day < 20_530 else 0.2
        ...     for user in range(300):
        ...         hits = ["a"] if chance.random() < rate else []
        ...         accumulator.update(["a"], hits, user=f"u{user}", ts=day * 86_400_000_000)
        >>> change = changes(accumulator, "hit_rate")
        >>> change.verdict, str(change.since), f"{change.effect:.2f}"
        ('worse', '2026-03-18', '-0.41')
    """
    for name, value in (("accumulator", accumulator), ("against", against)):
        if not isinstance(value, Accumulator) and not (name == "against" and value is None):
            raise MetricError(f"{name}={value!r:.80}: give a streameval.Accumulator")
    if not (is_number(series) and series >= 1):
        raise MetricError(f"series={series!r:.80}: give a number from 1 on")
    watch = ChangeSettings() if settings is None else settings
    if not isinstance(watch, ChangeSettings):
        raise MetricError(f"settings={settings!r:.80}: give a streameval.ChangeSettings")
    parsed = metric_of(metric, accumulator.metrics)
    arm, other = _watched_slice(accumulator, parsed), None
    if against is not None:
        other = _watched_slice(against, parsed)
        check_same_zone(accumulator.context.time_zone, against.context.time_zone)
        if arm.sums.numerators.shape[1] != other.sums.numerators.shape[1]:
            counts = (part.sums.numerators.shape[1] for part in (arm, other))
            raise unlike("numbers of user groups", *counts)
    newest = int(arm.sums.days[-1]) if arm.sums.days.size else 0
    last = newest - 1 if until is None else require_day("until", until)
    if last > newest > 0:
        raise MetricError(f"until={until}: give a day up to {date_of(newest)}, the newest")
    watch.check(newest, "settings")
    audience = accumulator.audience or NOBODY
    watched = WatchedSeries(
        parsed.text,
        None,
        WEEKS if against is None else OTHERS,
        parsed.definition.higher_is_better,
        arm,
        other,
        Traffic(audience.days, audience.list_counts, audience.nameless),
        [(require_day("rollouts", day), "") for day in rollouts],
    )
    precision = (accumulator.intervals or Intervals()).precision
    bets = _Bets(watch, precision, int(series))
    return _judge(look(watched, last, watch), bets, detailed=True)


def _watched_slice(accumulator: Accumulator, metric: Metric) -> WatchedSlice:
    if accumulator.intervals is None:
        raise not_comparable(metric.text)
    sums = accumulator.groups(metric.text)
    if sums is None:
        raise not_comparable(metric.text, accumulator.read(metric.text).no_interval)
    objection = objections_to([metric], accumulator.table, [0]).get(metric.text)
    return WatchedSlice(sums, reason_not_judged=None if objection is None else objection.reason)
