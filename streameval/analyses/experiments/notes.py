"""Notes on a comparison: its period, lists of unlike lengths, one account."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from typing import Final, NamedTuple

import numpy as np

from streameval.analyses.experiments.adjustment import LISTS, Before
from streameval.analyses.experiments.comparison import (
    Comparison,
    Settings,
    log_evidence_of,
    log_lift,
)
from streameval.analyses.experiments.course import are_known
from streameval.analyses.experiments.outcomes import Verdict
from streameval.analyses.experiments.sample_ratio import MUCH, TreatedBefore
from streameval.analyses.experiments.settings import Experiment
from streameval.analyses.experiments.verdicts import Compared, UnlikeLifts
from streameval.catalogue import parse
from streameval.catalogue.metric import Metric
from streameval.events.errors import MetricError
from streameval.inference.contrasts import Contrast
from streameval.inference.days import period_text
from streameval.inference.interval_formulas import FEWEST_GROUPS, MOST_ANONYMOUS
from streameval.inference.words import list_text, percent
from streameval.statistics.arrays import IntArray

_LONGER: Final = 0.01
"""Relative difference of lengths that matters."""

_DOMINANT_SHARE: Final = 0.2
"""Share of the variance above which one user bucket decides too much."""

_FEWEST_USERS: Final = int(FEWEST_GROUPS / _DOMINANT_SHARE)
"""Users of an arm above which such a share is unexpected."""

_WEEK: Final = 7


def period(days: IntArray, time_zone: str | None = None) -> str:
    """The days that are compared, in a sentence; `time_zone`: their zone, None for UTC.

    Example:
        >>> period(np.arange(20_513, 20_527))
        'Compared: 1 to 14 March 2026, 14 days that both have.'
        >>> period(np.array([20_513]), "Asia/Tokyo")
        'Compared: 1 March 2026 in Asia/Tokyo.'
        >>> period(np.array([20_513])), period(np.array([0]))
        ('Compared: 1 March 2026.', 'The events have no time: the period is not known.')
    """
    if not days.size:
        return "No day has lists of both."
    if not are_known(days):
        return "The events have no time: the period is not known."
    span = period_text([int(days[0]), int(days[-1])])
    span += "" if time_zone is None else f" in {time_zone}"
    return f"Compared: {span}{f', {days.size} days that both have' * (days.size > 1)}."


def adjustment_text(
    experiment: Experiment,
    before: Before | None,
    rows: Sequence[Compared],
    treated: Mapping[str, TreatedBefore],
) -> str:
    """Describe how the values are adjusted, or why they are not, in a sentence or two.

    `rows`: those that decide first. `treated`: variants that are not adjusted for this reason.
    """
    days, since = experiment.pre_period, experiment.begins
    if not days:
        return _no_adjustment_text("pre_period is 0")
    if since is None:
        return _no_adjustment_text("set `since`")
    sentences = []
    for row in rows:
        if row.known is None or row.narrower is None:
            continue
        of_variant = f" of {row.variant}" if len({other.variant for other in rows}) > 1 else ""
        sentences.append(
            f"Values adjusted by the clicks and lists of each user in the {days} days before "
            f"{since} (known for {percent(row.known)} of the users): the interval of {row.metric}"
            f"{of_variant} is {percent(abs(row.narrower))} "
            f"{'narrower' if row.narrower >= 0 else 'wider'}."
        )
        break
    if experiment.same_users:
        reasons = ["the variants share their users by design"]
    elif (
        before is None
        or (before.period.since, before.period.days) != (since, days)
        or not before.totals[LISTS].hashes.size
    ):
        reasons = [f"the days before {since} were not counted"]
    elif before.anonymous > MOST_ANONYMOUS:
        reasons = [f"{percent(before.anonymous)} of the lists before {since} have no user id"]
    elif treated:
        day = since.isoformat()
        reasons = [
            f"{shares.text(experiment.control, name, day)}, so that data may include its effect "
            "(set `since` to the day it began, and date the shares of a ramp)"
            for name, shares in treated.items()
        ]
    else:
        reasons = [] if sentences else [f"too few users are known from before {since}"]
    return " ".join([*sentences, *map(_no_adjustment_text, reasons)])


def _no_adjustment_text(reason: str) -> str:
    return f"No pre-experiment adjustment (CUPED): {reason}."


def short_week(days: IntArray) -> Iterator[str]:
    """Note that the days do not have every weekday.

    Example:
        >>> list(short_week(np.arange(20_513, 20_517)))
        ['only 4 days of data; run at least a full week']
    """
    if are_known(days) and np.unique(days % _WEEK).size < _WEEK:
        count = f"{days.size} days" if days.size > 1 else "1 day"
        lack = "" if days.size < _WEEK else " lack a weekday"
        yield f"{'' if lack else 'only '}{count} of data{lack}; run at least a full week"


def dominant_account(rows: Sequence[Compared], users: Mapping[str, float]) -> Iterator[str]:
    """Note that one user bucket has much of the variance of a comparison.

    `users`: number of users of each variant, control first.
    """
    control = next(iter(users))
    heavy = [
        row
        for row in rows
        if row.heaviest >= _DOMINANT_SHARE
        and min(users[control], users[row.variant]) >= _FEWEST_USERS
        and (row.lift_low is not None or row.groups < FEWEST_GROUPS)
    ]
    if not heavy:
        return
    # A metric that may be compared per user instead comes first.
    heaviest = max(heavy, key=lambda row: (bool(_or_per_user(row.metric)), row.heaviest))
    yield (
        f"one user bucket has {percent(heaviest.heaviest)} of the variance of {heaviest.metric} of "
        f"{heaviest.variant}, probably from one account; leave it out"
        f"{_or_per_user(heaviest.metric)}"
    )


def _or_per_user(text: str) -> str:
    """The remedy of a metric that has a mean over users, too; empty for others."""
    name, bracket, options = text.partition("(")
    name, at, cutoff = (name if bracket else text).partition("@")
    per_user = f"{name}(per=user,{options}" if bracket else f"{name}(per=user){at}{cutoff}"
    try:
        return f", or compare per user ({parse(per_user).text})"
    except MetricError:
        return ""


def unlike_segments(pairs: Sequence[UnlikeLifts]) -> Iterator[str]:
    """Note that the lifts of segments differ, so that the lift of all users is of none of them."""
    for pair in pairs:
        (lowest, low), (highest, high) = pair.lowest, pair.highest
        yield (
            f"the lift of {pair.metric} of {pair.variant} differs between segments: "
            f"{percent(high, '+')} in {highest}, {percent(low, '+')} in {lowest}; the lift of all "
            "users mixes them"
        )


class NewestDay(NamedTuple):
    """The newest day of a comparison by itself, and all days before it."""

    day: date
    alone: Contrast
    before: Contrast


def lift_shift(newest: NewestDay, names: tuple[str, str, str], settings: Settings) -> Iterator[str]:
    """Note that the lift of the newest day differs from that of all days before.

    The jackknife is of both lifts at once, as the same users come again.

    `names`: of the metric, of control and of the treatment.
    """
    metric, control, treatment = names
    if not (newest.alone.is_usable and newest.before.is_usable):
        return
    logs, influences = zip(*map(log_lift, (newest.alone, newest.before)), strict=True)
    lifts = [math.expm1(log) for log in logs]
    groups = min(newest.alone.groups, newest.before.groups)
    evidence = log_evidence_of(settings, groups, logs[0] - logs[1], influences[0] - influences[1])
    if evidence < math.log(MUCH) or abs(lifts[0] - lifts[1]) < _LONGER:
        return
    later = (treatment, control) if lifts[0] < lifts[1] else (control, treatment)
    yield (
        f"on {newest.day}, the newest day, the lift of {metric} of {treatment} is "
        f"{percent(lifts[0], '+')}, and {percent(lifts[1], '+')} before: if clicks of {later[0]} "
        f"arrive later than those of {later[1]}, some are still missing; compare without this "
        f"day (until {newest.day - timedelta(days=1)})"
    )


def unlike_lengths(
    variant: str,
    control: str,
    lengths: Comparison,
    metrics: Sequence[tuple[Metric, float]],
    read: Sequence[str],
) -> Iterator[str]:
    """Note that lists of a variant are longer or shorter, and which metrics depend on it.

    `lengths`: the items of a list, compared. `metrics`: each with the items that it reads of a list
    of the variant by those of control's. `read`: metrics to read instead.
    """
    lift = lengths.lift
    # Lists that all have one length do not vary, and surely differ.
    alike = lengths.verdict == Verdict.OPEN and lengths.lift_low is None
    certain = lengths.evidence >= MUCH or alike
    if lift is None or abs(lift) < _LONGER or not certain:
        return
    fewest = min(lengths.control or 0.0, lengths.treatment or 0.0)
    per_item = [metric.text for metric, ratio in metrics if abs(ratio - 1.0) >= _LONGER]
    cut = [
        metric.text
        for metric, _ in metrics
        if metric.definition.per == "list" and (metric.k or 0) > fewest
    ]
    reasons = []
    if per_item:
        reasons.append(
            f"{list_text(per_item)} {'are' if len(per_item) > 1 else 'is'} per item shown"
        )
    if cut:
        shorter = control if lift > 0 else variant
        reasons.append(f"lists of {shorter} end before the cut-off of {list_text(cut)}")
    if reasons:
        how = "longer" if lift > 0 else "shorter"
        yield (
            f"lists of {variant} are {percent(abs(lift))} {how}: {', and '.join(reasons)}; read "
            f"{list_text(read)} with {'them' if len(per_item + cut) > 1 else 'it'}"
        )
