"""The [experiment] table: the variants with their planned shares, and the metrics that decide."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import partial
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from streameval.accumulator.kinds.experiment import (
    USER_METRICS,
    Counted,
    ExperimentNeed,
    Judged,
    PrePeriod,
)
from streameval.catalogue import parse
from streameval.catalogue.metric import Metric
from streameval.engine.analysis import CountedFamily, CountedSetup, Expected, KeyProblem
from streameval.engine.rankers import RANKER
from streameval.engine.windows.labels import NOT_VALUES
from streameval.events.errors import ConfigError
from streameval.events.ids import is_number
from streameval.events.problems import check_types, percentage_hint
from streameval.events.spelling import unknown_name_problem
from streameval.inference.days import number_of_day
from streameval.inference.words import list_text

SINCE: Final = "since"
"""Key of the first day in shares with dates."""

Shares: TypeAlias = dict[str, float]
"""The share of each variant, in any unit."""

DatedShares: TypeAlias = list[dict[str, Any]]
"""Entries of `since`, a day, and the share of each variant from then on."""

_EXAMPLE: Final = '{ since = "2026-03-01", control = 99, treatment = 1 }'


class PlannedShares(NamedTuple):
    """The planned shares of variants from a day on.

    Attributes:
        since: the day; None: from the start.
        shares: by variant, in any unit; empty: equal.
    """

    since: date | None
    shares: Shares


def day_number(day: date | None) -> int | None:
    """Days since the epoch."""
    return None if day is None else number_of_day(day)


def plans_of(shares: Shares | DatedShares) -> list[PlannedShares]:
    """The planned shares, the oldest first; at least one."""
    if isinstance(shares, dict):
        return [PlannedShares(None, shares)]
    return [
        PlannedShares(
            _since(entry), {name: share for name, share in entry.items() if name != SINCE}
        )
        for entry in shares
    ] or [PlannedShares(None, {})]


def shares_problem(shares: Shares | DatedShares, control: str) -> str | None:
    """The reason that shares are not valid, in a sentence; None if they are."""
    if shares == []:
        return f"the list is empty; give entries like {_EXAMPLE}."
    for entry in shares if isinstance(shares, list) else ():
        if SINCE not in entry:
            return f"an entry has no date; give {_EXAMPLE}."
        if _since(entry) is None:
            return f"since = {entry[SINCE]!r:.80}; give a day, like 2026-03-01."
    plans = plans_of(shares)
    for earlier, later in pairwise(plans):
        if (day_number(earlier.since) or 0) >= (day_number(later.since) or 0):
            problem = f"{later.since} follows {earlier.since}"
            return f"{problem}; give the oldest first, and each day once."
        if earlier.shares.keys() != later.shares.keys():
            names = " and ".join(", ".join(part.shares) for part in (earlier, later))
            return f"they are of {names}; give each variant in every entry."
    for plan in plans:
        planned: Mapping[str, Any] = plan.shares
        for name, share in planned.items():
            if not (is_number(share) and share > 0):
                share_text = f"{share:g}" if isinstance(share, float) else repr(share)
                return f"{name} = {share_text:.80}; give a number above 0."
        if planned and (control not in planned or len(planned) < 2):
            problem = f"they are of {', '.join(planned)}; also give one for {control!r}"
            return f"{problem}, and one for each other variant."
    return None


def _since(entry: Mapping[str, Any]) -> date | None:
    """First day of an entry; None if it has none."""
    day = entry.get(SINCE)
    try:
        day = date.fromisoformat(day) if isinstance(day, str) else day
    except ValueError:
        return None
    return day if type(day) is date else None


_LONGEST: Final = 366
"""Most days of a pre-period."""

_PER_USER: Final = frozenset(metric.text for metric in USER_METRICS)


class Experiment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The variants and the deciding metrics of an experiment.

    Attributes:
        label: label whose values are the variants.
        control: the value to compare with.
        since: first day that counts, also in the checks of users; None: the day of the first
            shares if they have dates, else all days.
        until: last day that counts; None: all days.
        shares: planned share of users of each variant, in any unit; empty: equal. A list for a
            ramp: the shares of new users from the day `since` of each entry.
        primary: metrics that decide; they share the error rate.
        guardrails: metric -> lift that it may not fall below (rise above, if lower is better).
        same_users: whether users see several variants by design.
        within: segment or label within whose values variants are compared, if users are assigned
            by it. It must be a field that variants do not change.
        pre_period: days before `since` whose clicks and lists adjust the values (CUPED), up to
            366; 0 for no adjustment.
        untreated_before: whether no user was treated before `since`, although some had a
            treatment's label: they were assigned in advance, as for an A/A test.

    Raises:
        ConfigError: a value does not have its type.

    Example:
        >>> Experiment(guardrails={"ctr": -0.01}).control
        'control'
    """

    label: str = "variant"
    control: str = "control"
    since: date | None = None
    until: date | None = None
    shares: Shares | DatedShares = {}
    primary: list[str] = []
    guardrails: dict[str, float] = {}
    same_users: bool = False
    within: str | None = None
    pre_period: int = 28
    untreated_before: bool = False

    def __post_init__(self) -> None:
        check_types(self)

    @property
    def begins(self) -> date | None:
        """The first day that counts: that of the first shares if `since` is missing."""
        return plans_of(self.shares)[0].since if self.since is None else self.since

    @property
    def changes(self) -> list[int]:
        """The days on which the shares change, since the epoch: those of a ramp.

        Users who meet several variants by design are compared with themselves: no share matters.
        """
        later = [] if self.same_users else plans_of(self.shares)[1:]
        return [number_of_day(plan.since) for plan in later if plan.since is not None]

    def arms(self, names: Iterable[str]) -> list[str]:
        """The variants that are compared, control first: those with a share, else all.

        `names`: values of the label.
        """
        shares = plans_of(self.shares)[0].shares
        treatments = shares or sorted({*names}.difference(NOT_VALUES))
        return [self.control, *(name for name in treatments if name != self.control)]

    def check(self, metrics: Sequence[Metric], where: str = "experiment") -> None:
        """Check the settings against the metrics.

        Raises:
            ConfigError: a metric is not compared, or a number is not valid.
        """
        if problem := shares_problem(self.shares, self.control):
            raise ConfigError(where, "shares", problem)
        by_name = {metric.text: metric for metric in judged_metrics(metrics)}
        for key, names in (("primary", self.primary), ("guardrails", self.guardrails)):
            for name in names:
                if name not in by_name:
                    choices = ", ".join(by_name)
                    raise ConfigError(
                        where, key, f"{name!r} is not compared; choose one of {choices}."
                    )
        for name, limit in self.guardrails.items():
            falls = by_name[name].higher_is_better is not False
            is_allowed = partial(_is_guardrail, falls=falls)
            if not is_allowed(limit):
                sign = "a share from 0 to -1, like -0.01" if falls else "a share above 0, like 0.01"
                remedy = f"give {sign}{percentage_hint(limit, is_allowed)}"
                raise ConfigError(where, "guardrails", f"{name} = {limit:g}; {remedy}.")
        if self.since is not None and any(day <= number_of_day(self.since) for day in self.changes):
            message = (
                f"the shares changed on or before {self.since}, so earlier users were assigned "
                "under other shares; leave out since: it is then the day of the first shares."
            )
            raise ConfigError(where, "since", message)
        if self.begins is not None and self.until is not None and self.until < self.begins:
            message = f"{self.until} is before {self.begins}, the first day; give a later one."
            raise ConfigError(where, "until", message)
        if not 0 <= self.pre_period <= _LONGEST:
            message = f"{self.pre_period}; give a number of days from 0 to {_LONGEST}."
            raise ConfigError(where, "pre_period", message)


def _is_guardrail(limit: float, *, falls: bool) -> bool:
    return -1.0 < limit <= 0.0 if falls else 0.0 < limit <= 1.0


def judged_metrics(metrics: Sequence[Metric]) -> list[Judged]:
    """The metrics, and those per user beside any that can be compared."""
    comparable = any(metric.has_interval for metric in metrics)
    return [*map(judged_metric, metrics), *(USER_METRICS if comparable else ())]


def judged_metric(metric: Metric) -> Judged:
    """A metric as an experiment judges it."""
    counted: Counted | None = "means" if metric.is_per_user else None
    return Judged(metric.text, metric.definition.higher_is_better, counted)


def experiment_problems(experiment: Experiment, stored: CountedSetup) -> Iterator[KeyProblem]:
    """An experiment without intervals, with an unknown label, or that contradicts itself."""
    if stored.intervals is None:
        yield "experiment", "an experiment needs intervals; add intervals = { confidence = 0.95 }."
    compared = stored.by(experiment.label)
    if problem := unknown_name_problem(experiment.label, stored.labels, "`labels`"):
        yield "experiment.label", f"{experiment.label!r} is {problem}"
    elif not compared:
        yield "experiment.label", f"no metric is counted by {experiment.label!r}."
    if (within := experiment.within) is not None:
        names = [name for name in (*stored.labels, *stored.segments) if name != experiment.label]
        if problem := unknown_name_problem(within, names, "`labels` and `segments`"):
            yield "experiment.within", f"{within!r} is {problem}"
        compared = stored.by(experiment.label, within)
    if stored.rankers and experiment.label == RANKER:
        if not experiment.same_users:
            yield "experiment.same_users", "every user meets every ranker; add same_users = true."
        if problem := unknown_name_problem(experiment.control, stored.rankers, "the rankers"):
            yield "experiment.control", f"{experiment.control!r} is {problem}"
    if not compared:
        return  # Every metric would be wrong, for the reason above.
    try:
        experiment.check(compared)
    except ConfigError as error:
        yield f"experiment.{error.key}", error.problem


def needs(experiment: Experiment, family: CountedFamily) -> list[ExperimentNeed]:
    """Needs of a family with the variants of an experiment: their users, which are checked.

    If pre-experiment data adjusts its values, the days before it: no segment divides them.
    """
    if family.segment not in {None, experiment.within} or experiment.label not in family.dimensions:
        return []
    period = pre_period_of(experiment, family.metrics)
    if period is not None and family.segment is not None:
        period = msgspec.structs.replace(period, days=0) if period.cohorts else None
    return [ExperimentNeed(period)]


def pre_period_of(experiment: Experiment, metrics: Sequence[Metric]) -> PrePeriod | None:
    """Pre-experiment data to store of the users of an experiment with these metrics.

    On a ramp, what they do in it, too. None if neither is needed.
    """
    since, is_ramp = experiment.begins, bool(experiment.changes)
    if since is None or experiment.same_users or not (experiment.pre_period or is_ramp):
        return None
    decide = deciding_metrics(experiment)
    return PrePeriod(
        since=since,
        days=experiment.pre_period,
        metrics=tuple(metric.text for metric in metrics if metric.text in decide),
        cohorts=is_ramp,
        until=experiment.until if is_ramp else None,
    )


def expected_values(experiment: Experiment) -> Iterator[Expected]:
    """The control, and the variants of the planned shares; of a ramp, with their least share.

    None if the shares are not valid: `Experiment.check` says why.
    """
    if shares_problem(experiment.shares, experiment.control):
        return
    plans = [plan.shares for plan in plans_of(experiment.shares)]
    for name in dict.fromkeys((experiment.control, *plans[0])):
        shares = (plan[name] / sum(plan.values()) if plan else 0.5 for plan in plans)
        key = "control" if name == experiment.control else "shares"
        yield Expected(f"experiment.{key}", experiment.label, name, min(shares))


def experiment_line(experiment: Experiment) -> str:
    """The variants, and what decides."""
    parts = [f"by {experiment.label}, against {experiment.control}"]
    if experiment.within is not None:
        parts.append(f"within {experiment.within}")
    if experiment.begins is not None:
        parts.append(f"since {experiment.begins}")
        if experiment.pre_period and not experiment.same_users:
            parts.append(f"adjusted by the {experiment.pre_period} days before")
    if experiment.until is not None:
        parts.append(f"until {experiment.until}")
    if experiment.primary:
        several = len(experiment.primary) > 1
        parts.append(f"{list_text(experiment.primary)} {'decide' if several else 'decides'}")
    parts += [
        f"guardrail {name} {limit * 100:+.3g} %" for name, limit in experiment.guardrails.items()
    ]
    return "; ".join(parts)


def metric_name(text: str) -> str:
    """The name of a metric as a comparison has it: canonical, or of a metric per user."""
    return text if text in _PER_USER else parse(text).text


def deciding_metrics(experiment: Experiment) -> list[str]:
    """The metrics that are counted because they decide: primary ones and guardrails."""
    named = dict.fromkeys([*experiment.primary, *experiment.guardrails])
    return [name for name in named if name not in _PER_USER]
