"""Experiments: all metrics of all variants against control, with checks of the users."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from types import MappingProxyType
from typing import NamedTuple, TypeVar

import numpy as np
from msgspec.structs import asdict, replace

from streameval.accumulator.kinds.experiment import (
    LISTS_PER_USER,
    NEVER,
    USER_METRICS,
    Activity,
    Counted,
    Judged,
)
from streameval.accumulator.objections import Objection
from streameval.analyses.experiments.adjustment import (
    Before,
    Covariates,
    UsersBefore,
    narrower,
)
from streameval.analyses.experiments.checks import (
    check_audiences,
    check_within,
    split_within,
    unlabelled_note,
)
from streameval.analyses.experiments.comparison import (
    Settings,
    by_cell,
    contrast_of,
    judge,
    on_common_days,
    withhold_verdict,
)
from streameval.analyses.experiments.course import (
    Course,
    are_known,
    compare_days,
    course_of,
    detectable_lift,
    lifts_alone,
    outlook_of,
    pace_of,
    with_information,
)
from streameval.analyses.experiments.notes import (
    NewestDay,
    adjustment_text,
    dominant_account,
    lift_shift,
    period,
    short_week,
    unlike_lengths,
    unlike_segments,
)
from streameval.analyses.experiments.outcomes import GuardrailVerdict, Verdict
from streameval.analyses.experiments.ramp import Cohorts
from streameval.analyses.experiments.sample_ratio import (
    ALARM,
    MUCH,
    TreatedBefore,
    treated_before,
)
from streameval.analyses.experiments.settings import (
    Experiment,
    day_number,
    judged_metric,
    judged_metrics,
    plans_of,
)
from streameval.analyses.experiments.verdicts import (
    Compared,
    DraftComparison,
    Report,
    correct_for_number,
    guardrail_verdict,
    keeps_limit,
    unlike_lifts,
)
from streameval.analyses.experiments.words import in_words, without_value
from streameval.catalogue.metric import Metric
from streameval.decoding.values import MISSING_LABEL
from streameval.engine.windows.labels import NOT_VALUES, Labels
from streameval.inference.contrasts import Contrast
from streameval.inference.days import date_of
from streameval.inference.interval_formulas import MOST_ANONYMOUS, pool_days
from streameval.inference.planned_looks import PlannedLook
from streameval.inference.words import percent
from streameval.statistics.arrays import IntArray, distinct
from streameval.statistics.intervals import NOBODY, Audience, GroupSums, Intervals, Method

T = TypeVar("T")


def by_names(data: Mapping[str, T], names: Mapping[str, Sequence[str]]) -> dict[str, T]:
    """Data by text of a metric, with other names of these; `names`: text -> its names.

    Example:
        >>> by_names({"mrr": 1, "ctr": 2}, {"ctr": ["clicks", "ctr"]})
        {'mrr': 1, 'clicks': 2, 'ctr': 2}
    """
    return {name: of for text, of in data.items() for name in names.get(text, [text])}


class Variant(NamedTuple):
    """The data of one variant.

    Attributes:
        sums: group sums of each comparable metric, by its text.
        activity: its lists and clicks; None if they are not stored.
        objections: text of a metric -> why not to judge it.
        values: exact value of each metric over all its lists; sums by group are rounded.
        means: sums of the users' means by user group, of each metric that is a mean over users.
        strata: value of the segment within which variants are compared -> its data there.
        cohorts: its users with what they did since the experiment began, for a ramp; None if they
            are not kept.
        time_zone: zone of the days; None for UTC.
    """

    sums: Mapping[str, GroupSums]
    audience: Audience
    activity: Activity | None = None
    objections: Mapping[str, Objection] = MappingProxyType({})
    values: Mapping[str, float] = MappingProxyType({})
    means: Mapping[str, GroupSums] = MappingProxyType({})
    strata: Mapping[str, Variant] = MappingProxyType({})
    cohorts: Cohorts | None = None
    time_zone: str | None = None

    def during(self, experiment: Experiment) -> Variant:
        """The variant on the days of an experiment."""
        first, last = day_number(experiment.begins), day_number(experiment.until)
        if first is None and last is None:
            return self
        first, last = -NEVER if first is None else first, NEVER if last is None else last
        sums = {
            name: sum_.rows((sum_.days >= first) & (sum_.days <= last))
            for name, sum_ in self.sums.items()
        }
        audience = self.audience.since(first).until(last)
        # The users' means are not stored by day.
        means = {} if audience.days.size < self.audience.days.size else self.means
        activity = None if self.activity is None else self.activity.until(last)
        strata = {value: variant.during(experiment) for value, variant in self.strata.items()}
        return self._replace(
            sums=sums, audience=audience, activity=activity, values={}, means=means, strata=strata
        )

    def rename(self, names: Mapping[str, Sequence[str]]) -> Variant:
        """The variant with other names of its metrics; `names`: text -> its names."""
        cohorts = self.cohorts
        return self._replace(
            sums=by_names(self.sums, names),
            objections=by_names(self.objections, names),
            values=by_names(self.values, names),
            means=by_names(self.means, names),
            strata={value: variant.rename(names) for value, variant in self.strata.items()},
            cohorts=None
            if cohorts is None
            else cohorts._replace(totals=by_names(cohorts.totals, names)),
        )

    def exact(self, metric: str) -> float | None:
        """The exact value of a metric if all its lists are on one day; otherwise None."""
        sums = self.sums.get(metric)
        return self.values.get(metric) if sums is not None and sums.days.size == 1 else None

    def join(self, other: Variant) -> Variant:
        """The variant with the metrics of another one of the same lists added."""
        return self._replace(
            sums={**self.sums, **other.sums},
            activity=self.activity or other.activity,
            objections={**self.objections, **other.objections},
            values={**self.values, **other.values},
            means={**self.means, **other.means},
            cohorts=other.cohorts if self.cohorts is None else self.cohorts.join(other.cohorts),
        )


def compare_with_control(
    experiment: Experiment,
    metrics: Sequence[Metric],
    variants: Mapping[str, Variant],
    intervals: Intervals,
    method: Method = "anytime",
    *,
    before: Before | None = None,
    look: PlannedLook | None = None,
) -> Report:
    """Compare every variant with control in every comparable metric.

    Primary metrics share the error rate: each is compared at alpha / (variants x primary metrics),
    and guardrails share another. The others are selected together; see `correct_for_number`.

    `before`: sums of users in the days before, which adjust the values. `look`: of the planned
    looks of the method "fixed".
    """
    named = {name for name in variants if name not in NOT_VALUES}
    plans = plans_of(experiment.shares)
    nothing = Variant({}, NOBODY)
    arms = {
        name: variants.get(name, nothing).during(experiment) for name in experiment.arms(variants)
    }
    treatments = list(arms)[1:]
    checks = check_audiences(
        {name: variant.audience for name, variant in arms.items()},
        plans,
        same_users=experiment.same_users,
        left_out=sorted(named.difference(arms)),
        unlabelled=variants.get(MISSING_LABEL, nothing).during(experiment).audience,
    )
    if experiment.within is not None:
        # Values of one variant alone do not count.
        common = set.intersection(
            *(
                {value for value, stratum in arm.strata.items() if stratum.audience.lists}
                for arm in arms.values()
            )
        )
        audiences = {
            value: {name: arm.strata[value].audience for name, arm in arms.items()}
            for value in common
        }
        checks = check_within(checks, experiment.within, audiences, plans)
    if experiment.begins is not None and not (experiment.same_users or experiment.untreated_before):
        treated = treated_before(
            {name: arm.audience for name, arm in arms.items()},
            {name: variant.audience for name, variant in variants.items()},
            experiment.begins,
        )
        checks = replace(checks, treated_before=treated)
    judged = judged_metrics(metrics)
    comparisons = _Comparisons(
        experiment,
        judged,
        arms,
        intervals,
        method,
        before=before,
        treated=checks.treated_before,
        look=look,
    )
    checks = replace(checks, trouble=(*checks.trouble, *comparisons.unlike_before()))
    comparable = [metric for metric in judged if comparisons.has(metric)]
    followed = comparisons.primary or comparable[:1]
    rows: list[Compared] = []
    # Metrics per user are selected by themselves: asking for a metric must not cost it evidence.
    for per_user in (False, True):
        pairs = [
            (metric, name)
            for metric in comparable
            if (metric in USER_METRICS) is per_user
            for name in treatments
        ]
        drafts = [comparisons.draft(metric, name) for metric, name in pairs]
        rows += [
            comparisons.with_course(row, metric, draft.contrast, daily=metric in followed)
            for row, draft, (metric, _) in zip(
                correct_for_number(drafts), drafts, pairs, strict=True
            )
        ]
    days = comparisons.days(comparable)
    zone = next((variant.time_zone for variant in variants.values()), None)
    checks = replace(checks, period=period(days, zone))
    if are_known(days) and (experiment.begins is not None or not experiment.same_users):
        deciding = sorted(rows, key=lambda row: not row.primary)
        text = adjustment_text(experiment, before, deciding, checks.treated_before)
        checks = replace(checks, adjustment=text)
    if not checks.trouble:
        notes = (
            *unlabelled_note(checks),
            *short_week(days),
            *comparisons.notes(metrics, rows, checks.users),
            *comparisons.lift_shifts([metric for metric in followed if metric.counted is None]),
        )
        checks = replace(checks, notes=notes)
    return in_words(Report(checks, rows, experiment.label, intervals, look=look).finalize())


def with_segments(
    report: Report,
    experiment: Experiment,
    metrics: Sequence[Metric],
    segments: Mapping[str, Mapping[str, Variant]],
    method: Method = "anytime",
    *,
    before: Before | None = None,
) -> Report:
    """The report with a comparison of each segment; all of them are selected together.

    Neither primary metrics nor guardrails are special in a segment. The overflow value, and events
    without a value, are shown and not judged.

    `segments`: value of the segment -> variants. `before`: see `compare_with_control`.
    """
    control, *treatments = report.checks.users
    undecided = replace(experiment, primary=[], guardrails={}, within=None)
    judged, nothing = judged_metrics(metrics), Variant({}, NOBODY)
    drafts, overflow = [], []
    for name, variants in sorted(segments.items()):
        arms = {
            arm: variants.get(arm, nothing).during(experiment) for arm in (control, *treatments)
        }
        comparisons = _Comparisons(
            undecided,
            judged,
            arms,
            report.intervals,
            method,
            before=before,
            treated=report.checks.treated_before,
            look=report.look,
        )
        of_segment = [
            comparisons.draft(metric, variant, segment=name)
            for metric in judged
            if metric.counted is None and comparisons.has(metric)
            for variant in treatments
        ]
        if name in NOT_VALUES:
            overflow += [replace(draft.row, verdict=Verdict.NOT_JUDGED) for draft in of_segment]
        else:
            drafts += of_segment
    rows = [*correct_for_number(drafts), *overflow]
    if not report.checks.trouble:
        notes = (*report.checks.notes, *unlike_segments(unlike_lifts(drafts)))
        report = report._replace(checks=replace(report.checks, notes=notes))
    return in_words(report.with_segments(rows))


def check_segment(
    report: Report,
    experiment: Experiment,
    segment: str,
    audiences: Mapping[Labels, Audience],
) -> Report:
    """The report without verdicts on all users if those of a segment's values are not split so.

    If all users of a country are in one variant, the total compares countries. Comparisons within
    the values keep their verdicts.

    `audiences`: value of the segment and variant -> its users.
    """
    if segment == experiment.within:
        return report
    first, last = day_number(experiment.begins), day_number(experiment.until)
    users = {
        value: {
            name: audiences.get((value, name), NOBODY).since(first).until(last)
            for name in report.checks.users
        }
        for value, _ in audiences
    }
    plans = plans_of(experiment.shares)
    evidence, worst = split_within(segment, users, plans, same_users=experiment.same_users)
    largest = max(evidence, report.checks.segment_evidence or 0.0)
    checks = replace(report.checks, segment_evidence=largest)
    if evidence >= ALARM > checks.ratio_evidence:
        reason = f"{worst}, although the total is: compare within {segment} (--within {segment})"
        checks = replace(checks, trouble=(*checks.trouble, reason))
    return in_words(report._replace(checks=checks).finalize())


def _items_read(arm: Variant, metric: Metric) -> float:
    """The items of a list that a metric per item reads; 1 for other metrics."""
    if metric.definition.per != "item" or arm.activity is None:
        return 1.0
    sums, activity = arm.sums[metric.text], arm.activity.sums
    days = np.intersect1d(sums.days, activity.days)
    items, lists = (
        float(part.denominators[np.isin(part.days, days)].sum()) for part in (sums, activity)
    )
    return items / lists if items > 0 else 1.0


class _Comparisons:
    """Common data of the comparisons of an experiment.

    Attributes:
        primary: the metrics that decide.
        values: of the segment within which variants are compared; empty without one.
        cells: rows of a day in the sums of `_pair`.
    """

    def __init__(
        self,
        experiment: Experiment,
        judged: Sequence[Judged],
        arms: Mapping[str, Variant],
        intervals: Intervals,
        method: Method,
        *,
        before: Before | None,
        treated: Mapping[str, TreatedBefore],
        look: PlannedLook | None,
    ) -> None:
        self._experiment, self._arms, self._treated = experiment, arms, treated
        self._look = look
        self._intervals = intervals
        self._method: Method = method
        self.primary = [metric for metric in judged if metric.text in experiment.primary]
        self._primaries = max(len(self.primary) * (len(arms) - 1), 1)
        self._guardrails = max(len(experiment.guardrails) * (len(arms) - 1), 1)
        self.values = sorted(set[str]().union(*(arm.strata for arm in arms.values())))
        self.cells = max(len(self.values), 1)
        nothing = Variant({}, NOBODY)
        self._parts = {
            name: [arm.strata.get(value, nothing) for value in self.values] or [arm]
            for name, arm in arms.items()
        }
        empty = np.zeros((0, intervals.groups))
        self._nothing = GroupSums(np.zeros(0, np.int64), empty, empty.astype(np.int64))
        # Users of the variants who cannot be compared one by one.
        self._unlike_users: str | None = None
        # Days on which the shares of a ramp change; then users are compared by what assigned them.
        self._changes = experiment.changes
        if experiment.same_users:
            self._unlike_users = "the variants share their users by design"
        elif self._changes:
            self._unlike_users = "on a ramp, users have been there for different times"
        # Variant -> its users and those of control with what they did before; empty if that adjusts
        # nothing.
        self._before: dict[str, UsersBefore] = {}
        if (
            before is not None
            and not experiment.same_users
            and before.anonymous <= MOST_ANONYMOUS
            and (before.period.since, before.period.days)
            == (experiment.begins, experiment.pre_period)
        ):
            control = self._parts[experiment.control]
            for name in self._treatments:
                pairs = zip(control, self._parts[name], strict=True)
                arms_of = [(self._users(first), self._users(other)) for first, other in pairs]
                counted = [(first, other) for first, other in arms_of if first and other]
                if len(counted) == len(arms_of):
                    self._before[name] = UsersBefore(
                        before, counted, intervals.groups, self._changes
                    )

    def _cohorts(self, arm: Variant) -> Cohorts | None:
        """The users of an arm since the experiment began; None if they were not counted so."""
        cohorts = arm.cohorts
        days = self._experiment.begins, self._experiment.until
        has_same_days = cohorts is not None and cohorts.days == days
        return cohorts if has_same_days else None

    def _users(self, arm: Variant) -> Audience | None:
        """The users of an arm with their first days; on a ramp those since it began."""
        if not self._changes or not arm.audience.lists:
            return arm.audience
        cohorts = self._cohorts(arm)
        return None if cohorts is None else cohorts.among(arm.audience)

    @property
    def _treatments(self) -> list[str]:
        return [name for name in self._arms if name != self._experiment.control]

    def has(self, metric: Judged) -> bool:
        """True if any variant has the sums of a metric.

        Metrics per user need users of their own in each variant who have come for equally long,
        unlike those of a ramp.
        """
        parts = [part for of_arm in self._parts.values() for part in of_arm]
        if metric.counted is None:
            return any(metric.text in part.sums for part in parts) and not self._lacks(metric)
        if self._unlike_users is not None:
            return False
        if metric.counted == "means":
            return any(metric.text in part.means for part in parts)
        begun = [part for part in parts if part.audience.lists]
        return len(begun) > 0 and all(part.activity is not None for part in begun)

    def _lacks(self, metric: Judged | Metric) -> bool:
        """True if users of a ramp were counted without the shares that assigned them."""
        if not self._changes:
            return False
        return not all(
            cohorts is not None
            and cohorts.covers(metric.text, part.sums.get(metric.text), part.audience.lists)
            for of_arm in self._parts.values()
            for part in of_arm
            for cohorts in [self._cohorts(part)]
            if part.audience.lists
        )

    def _settings(self, method: Method) -> Settings:
        """Settings of what is compared beside the metrics, which has no better direction."""
        precision, confidence = self._intervals.precision, self._intervals.confidence
        return Settings(method, precision, confidence, higher_is_better=None)

    def unlike_before(self) -> Iterator[str]:
        """Reasons not to trust the variants: users who differed before the experiment."""
        for name, users in self._before.items():
            names = self._experiment.control, name
            yield from users.distrust_reasons(
                names, self._settings("anytime"), self._treated.get(name)
            )

    def days(self, metrics: Sequence[Judged]) -> IntArray:
        """The days that control and any variant have of the metrics."""
        days = [
            on_common_days(*self._daily(metric, name))[0].days // self.cells
            for metric in metrics
            if metric.counted is None
            for name in self._treatments
        ]
        return distinct(np.concatenate([np.zeros(0, np.int64), *days]))

    def notes(
        self, metrics: Sequence[Metric], rows: Sequence[Compared], users: Mapping[str, float]
    ) -> Iterator[str]:
        """Yield notes on the metrics; `rows` are those compared."""
        control, segment = self._experiment.control, self._experiment.within
        if self._changes:
            yield (
                "on a ramp, users are compared only with users who came under the same shares; "
                "single days are not compared"
            )
        shares = {row.variant: row.comparable for row in reversed(rows)}
        for name, share in sorted(shares.items()):
            if share is not None:
                yield (
                    f"compared within {segment}: {percent(share)} of the lists of {control} and "
                    f"{name} are in values that have both variants"
                )
        for row in rows:
            if row.metric == LISTS_PER_USER.text and row.lift is not None and row.evidence >= MUCH:
                how = "more" if row.lift > 0 else "less"
                yield (
                    f"users of {row.variant} come {percent(abs(row.lift))} {how} often than those "
                    f"of {control}: metrics per list compare different visits, so read "
                    "lists_per_user and clicks_per_user alongside"
                )
        control_arm = self._arms[control]
        for name in self._treatments:
            other = self._arms[name]
            if control_arm.activity is None or other.activity is None:
                continue
            lengths = judge(
                contrast_of(control_arm.activity.lengths, other.activity.lengths),
                self._settings(self._method),
            )
            ratios = [
                (metric, _items_read(other, metric) / _items_read(control_arm, metric))
                for metric in metrics
                if metric.text in control_arm.sums and metric.text in other.sums
            ]
            read = [*(["clicks_per_user"] if self.has(LISTS_PER_USER) else []), "hit_rate"]
            yield from unlike_lengths(name, control, lengths, ratios, read)
        yield from (without_value(row, control) for row in rows if row.expected is not None)
        yield from dominant_account(rows, users)
        if self.has(LISTS_PER_USER):
            begun = [arm for arm in self._arms.values() if arm.audience.lists]
            first = max(map(_first_day, begun))
            if NEVER > first > min(int(arm.audience.days.min()) for arm in begun):
                yield (
                    f"lists_per_user and clicks_per_user count from {date_of(first)} on: earlier "
                    "clicks were not counted at every rank"
                )
        for metric in metrics:
            if not metric.has_interval or self.has(judged_metric(metric)):
                continue
            if metric.is_per_user:
                reason = self._unlike_users or "means over users are not stored by event day"
                yield f"{metric.text} is not compared: {reason}"
            elif self._lacks(metric):
                yield (
                    f"{metric.text} is not compared: earlier users were not counted by the shares "
                    "that assigned them"
                )
            elif self.values:
                yield f"{metric.text} is not compared: it was not counted by {segment}"

    def lift_shifts(self, metrics: Sequence[Judged]) -> Iterator[str]:
        """Note that the lift of the newest day is not that of the days before.

        Not on a ramp, where users of a day have come for unlike times.
        """
        if self._changes:
            return
        for metric, name in product(metrics, self._treatments):
            newest = self.newest_day(metric, name)
            if newest is not None:
                names = metric.text, self._experiment.control, name
                yield from lift_shift(newest, names, self._settings("anytime"))

    def newest_day(self, metric: Judged, name: str) -> NewestDay | None:
        """The newest day of a comparison, and all days before it; None without any before."""
        control, treatment = on_common_days(*self._pair(metric, name))
        days = control.days // self.cells
        if not days.size or days[0] == days[-1]:
            return None
        last = days == days[-1]
        alone, before = (
            contrast_of(control.rows(rows), treatment.rows(rows)) for rows in (last, ~last)
        )
        if alone is None or before is None:
            return None
        return NewestDay(date_of(int(days[-1])), alone, before)

    def draft(self, metric: Judged, name: str, segment: str | None = None) -> DraftComparison:
        """A comparison before the selection among all."""
        control, treatment = self._pair(metric, name)
        arms = self._arms[self._experiment.control], self._arms[name]
        primary = metric in self.primary
        alpha = 1.0 - self._intervals.confidence
        settings = Settings(
            self._method,
            self._intervals.precision,
            1.0 - alpha / self._primaries if primary else self._intervals.confidence,
            metric.higher_is_better,
            cells=self.cells,
            look=(
                None
                if self._look is None
                else with_information(self._look, self._course(metric, name))
            ),
        )
        objection = {**arms[0].objections, **arms[1].objections}.get(metric.text)
        raw = contrast_of(control, treatment) if objection is None else None
        covariates = self._covariates(metric, name)
        if raw is not None and not (self.values or self._changes):
            raw = raw.with_values(*(arm.exact(metric.text) for arm in arms))
        contrast = raw if raw is None or covariates is None else covariates.adjust(raw)
        comparison = judge(contrast, settings)
        if objection is not None:
            comparison = withhold_verdict(comparison, objection)
        limit = self._experiment.guardrails.get(metric.text)
        guardrail, within_limit = None, None
        if limit is not None:
            guarded = settings._replace(confidence=1.0 - alpha / self._guardrails)
            guardrail = guardrail_verdict(contrast, guarded, limit)
            alone = settings._replace(confidence=1.0 - alpha / (len(self._arms) - 1))
            within_limit = keeps_limit(contrast, alone, limit)
            if objection is not None:
                guardrail, within_limit = GuardrailVerdict.DO_NOT_TRUST, False
        common = on_common_days(control, treatment)
        fields = asdict(comparison)
        if contrast is None:
            # Without a day in common, the values are of the days of each arm by itself.
            values_of = common if common[0].days.size else (control, treatment)
            for key, sums in zip(("control", "treatment"), values_of, strict=True):
                fields[key] = pool_days(sums).value if sums.denominators.any() else None
        elif covariates is not None and contrast is not raw:
            unadjusted = judge(raw, settings)
            fields["raw_lift"], fields["known"] = unadjusted.lift, covariates.known
            fields["narrower"] = narrower(unadjusted, comparison)
        some, lists = (
            sum(float(sums.denominators.sum()) for sums in pair)
            for pair in (common, (control, treatment))
        )
        comparable = some / lists if lists else None
        row = Compared(
            **fields,
            metric=metric.text,
            variant=name,
            primary=primary,
            among=self._primaries if primary else 1,
            guardrail=limit,
            guardrail_verdict=guardrail,
            within_limit=within_limit,
            segment=segment,
            comparable=comparable if self.values else None,
        )
        return DraftComparison(row, contrast, settings)

    def _covariates(self, metric: Judged, name: str) -> Covariates | None:
        users = None if name in self._treated else self._before.get(name)
        return None if users is None else users.covariates(metric.text)

    def _course(self, metric: Judged, name: str) -> Course:
        """The contrasts up to each day; on a ramp, these only tell how the error falls."""
        covariates = None if self._changes else self._covariates(metric, name)
        return course_of(*self._daily(metric, name), covariates, cells=self.cells)

    def with_course(
        self, row: Compared, metric: Judged, contrast: Contrast | None, *, daily: bool
    ) -> Compared:
        """The row with its outlook; `daily` adds its results by day and week."""
        arms = self._daily(metric, row.variant)
        level = 1.0 - row.confidence
        alpha = level if row.primary else 1.0 - self._intervals.confidence
        settings = Settings(
            self._method, self._intervals.precision, 1.0 - alpha, level=level, cells=self.cells
        )
        course = self._course(metric, row.variant)
        days = np.array([day for day, _ in course])
        if self._look is not None:
            settings = settings._replace(look=with_information(self._look, course))
        if row.lift_low is not None and row.expected is None:
            # Days of a ramp mix users, so that only its rows have the error of the lift.
            contrast = course[-1][1] if contrast is None or not self._changes else contrast
            row = replace(row, detectable=detectable_lift(contrast, settings))
            of_both = self._arms[self._experiment.control], self._arms[row.variant]
            pace = pace_of([arm.audience for arm in of_both], days)
            if pace is not None:
                outlook = outlook_of(contrast, settings, pace)
                left = pace.days_until(outlook.users)
                row = replace(row, outlook=outlook, days_left=left)
        if self._changes:
            return row
        is_followed = daily and row.reason is None and metric.counted is None
        if not (is_followed and are_known(days)):
            return row
        alone = settings._replace(confidence=self._intervals.confidence)
        return replace(
            row,
            days=tuple(compare_days(course, settings) if self._method == "anytime" else ()),
            daily=tuple(lifts_alone(*arms, alone, days=1)),
            weekly=tuple(lifts_alone(*arms, alone, days=7)),
        )

    def _pair(self, metric: Judged, name: str) -> tuple[GroupSums, GroupSums]:
        """The sums that are compared: by day, or on a ramp by the shares that assigned users."""
        if not self._changes or metric.counted is not None:
            return self._daily(metric, name)
        return self._of_parts(name, lambda arms: [self._by_row(arm, metric) for arm in arms])

    def _by_row(self, arm: Variant, metric: Judged) -> GroupSums:
        cohorts = self._cohorts(arm)
        if cohorts is None or metric.text not in cohorts.totals:
            return self._nothing
        return cohorts.by_row(metric.text, self._changes, self._intervals.groups)

    def _daily(self, metric: Judged, name: str) -> tuple[GroupSums, GroupSums]:
        """The sums by day."""
        counted = metric.counted
        if counted in ("clicks", "lists"):
            return self._of_parts(name, lambda arms: self._per_user(arms, counted))
        kind = "sums" if counted is None else "means"
        return self._of_parts(
            name,
            lambda arms: [getattr(arm, kind).get(metric.text, self._nothing) for arm in arms],
        )

    def _per_user(self, arms: Sequence[Variant], counted: Counted) -> list[GroupSums]:
        # An arm without lists is no reason to leave out those of the other.
        first = max((_first_day(arm) for arm in arms if arm.audience.lists), default=NEVER)
        return [
            arm.activity.per_user(arm.audience, counted, first) if arm.activity else self._nothing
            for arm in arms
        ]

    def _of_parts(
        self, name: str, sums_of: Callable[[Sequence[Variant]], Sequence[GroupSums]]
    ) -> tuple[GroupSums, GroupSums]:
        """The sums of control and of a variant, with rows for each value of a segment."""
        names = self._experiment.control, name
        pairs = [sums_of(arms) for arms in zip(*(self._parts[arm] for arm in names), strict=True)]
        first, other = (
            by_cell(of_arm) if self.values else of_arm[0] for of_arm in zip(*pairs, strict=True)
        )
        return first, other


def _first_day(arm: Variant) -> int:
    """The first day with all lists and clicks by user; NEVER if there is none."""
    return arm.activity.first_day(arm.audience) if arm.activity else NEVER
