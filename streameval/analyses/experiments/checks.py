"""Checks of an experiment: the sample ratio, users in several variants, and missing user ids."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from itertools import zip_longest

import msgspec
from msgspec.structs import replace

from streameval.analyses.experiments.sample_ratio import (
    ALARM,
    MOST_TIMES,
    MUCH,
    Crowd,
    TreatedBefore,
    anonymous_shares,
    ratio_evidence,
    shared_evidence,
    smallest_imbalance,
    uneven_evidence,
    unlabelled_evidence,
    unlabelled_shares,
)
from streameval.analyses.experiments.settings import PlannedShares, day_number
from streameval.engine.windows.labels import NOT_VALUES
from streameval.inference.interval_formulas import LARGEST_EVIDENCE, MOST_ANONYMOUS
from streameval.inference.words import percent
from streameval.statistics.intervals import NOBODY, Audience


class Split(msgspec.Struct, frozen=True, kw_only=True):
    """The users that came first while one set of shares was planned.

    Attributes:
        since: first day of the shares; None: from the start.
        users: users of each variant by their first day; only those below the threshold of hashes.
        shares: planned share of each variant; they sum to 1.
        evidence: e-value against the planned split.
    """

    since: date | None
    users: dict[str, int]
    shares: dict[str, float]
    evidence: float


class Checks(msgspec.Struct, frozen=True, kw_only=True):
    """Results of the checks of an experiment.

    Attributes:
        users: number of users of each variant, control first; an estimate if there are very many.
        shares: planned share of each variant, the newest ones; they sum to 1.
        ratio_evidence: e-value against the planned split of users; 1 if users are the same.
        shared: share of users in several variants.
        shared_evidence: e-value against `shared` being accidental; 1 if users are the same.
        same_users: whether users see several variants by design.
        anonymous: largest share of lists without a user id in any variant.
        left_out: values of the label that are not variants of the experiment.
        trouble: reasons not to trust any verdict, one sentence each.
        splits: users by the shares that were planned when they came first, the oldest first.
        smallest_imbalance: error of control's share that the check of the newest split would find;
            None with too few users for any, or if users are the same.
        moved: "control -> treatment" -> share of users who saw one variant first, the other last.
        uneven_evidence: e-value for lists without a user id being more frequent in some variant.
        notes: what to know about the metrics, one sentence each.
        period: the days that are compared, a sentence.
        adjustment: how the values are adjusted by pre-experiment data, or why not, a sentence;
            empty without event time.
        segment_evidence: e-value against the planned split within segments: the mean over the
            values of the segment for which it is largest; None without segments.
        unlabelled: variant -> share of its users who also have lists without a variant.
        unlabelled_evidence: e-value for these shares being unlike; 1 if users are the same.
        treated_before: variant -> shares of users who were treated before the experiment, where
            these keep its values from being adjusted.
        is_sample: whether numbers of users are estimates, as there are very many.
    """

    users: dict[str, float]
    shares: dict[str, float]
    ratio_evidence: float
    shared: float
    shared_evidence: float
    same_users: bool
    anonymous: float
    left_out: tuple[str, ...] = ()
    trouble: tuple[str, ...] = ()
    splits: tuple[Split, ...] = ()
    smallest_imbalance: float | None = None
    moved: dict[str, float] = {}
    uneven_evidence: float = 1.0
    notes: tuple[str, ...] = ()
    period: str = ""
    adjustment: str = ""
    segment_evidence: float | None = None
    unlabelled: dict[str, float] = {}
    unlabelled_evidence: float = 1.0
    treated_before: dict[str, TreatedBefore] = {}
    is_sample: bool = False


def check_audiences(
    audiences: Mapping[str, Audience],
    plans: Sequence[PlannedShares],
    *,
    same_users: bool,
    left_out: Sequence[str] = (),
    unlabelled: Audience = NOBODY,
) -> Checks:
    """Check the users of the variants.

    `audiences`: users of each variant, control first. `plans`: planned shares, the oldest first; a
    variant that they do not name has the share 1. `unlabelled`: users of lists without a variant.
    """
    crowd = Crowd(audiences)
    splits = []
    for plan, following in zip_longest(plans, plans[1:]):
        # Users who came first on the day of a change are in no split: either shares may hold.
        changed = None if plan is plans[0] else day_number(plan.since)
        first = None if changed is None else changed + 1
        end = None if following is None else day_number(following.since)
        planned = {name: plan.shares.get(name, 1.0) for name in crowd.names}
        planned_total = sum(planned.values())
        shares = {name: share / planned_total for name, share in planned.items()}
        users = dict(zip(crowd.names, crowd.counts(first, end), strict=True))
        against = ratio_evidence(list(users.values()), list(shares.values()))
        splits.append(Split(since=plan.since, users=users, shares=shares, evidence=against))
    newest = splits[-1]
    imbalance = smallest_imbalance(sum(newest.users.values()), list(newest.shares.values()))
    arms = list(audiences.values())
    # The product of independent e-values is one.
    logs = math.fsum(math.log(split.evidence) for split in splits)
    evidence = math.exp(min(logs, math.log(LARGEST_EVIDENCE)))
    checks = Checks(
        users={name: audience.users for name, audience in audiences.items()},
        shares=newest.shares,
        ratio_evidence=1.0 if same_users else evidence,
        shared=crowd.shared / crowd.users if crowd.users else 0.0,
        shared_evidence=1.0 if same_users else shared_evidence(crowd.shared, crowd.users),
        same_users=same_users,
        is_sample=any(arm.threshold < 2**64 for arm in arms),
        anonymous=max(anonymous_shares(arms)),
        left_out=tuple(left_out),
        splits=tuple(splits),
        smallest_imbalance=None if same_users else imbalance,
        moved={
            f"{origin} -> {goal}": users / crowd.users
            for (origin, goal), users in crowd.movements().items()
            if origin != goal and not same_users
        },
        uneven_evidence=uneven_evidence(arms),
        unlabelled={} if same_users else unlabelled_shares(audiences, unlabelled),
        unlabelled_evidence=1.0 if same_users else unlabelled_evidence(audiences, unlabelled),
    )
    return replace(checks, trouble=tuple(_distrust_reasons(checks)))


def split_within(
    segment: str,
    audiences: Mapping[str, Mapping[str, Audience]],
    plans: Sequence[PlannedShares],
    *,
    same_users: bool,
) -> tuple[float, str]:
    """The mean of the e-values of the planned split over a segment's values; the worst, in words.

    The mean of e-values is one, whatever their dependence, so no number of values makes an alarm
    likelier. `audiences`: value -> variant -> its users, of all variants and control first.
    """
    checked = {
        value: check_audiences(arms, plans, same_users=same_users)
        for value, arms in sorted(audiences.items())
        if value not in NOT_VALUES
    }
    if not checked:
        return 1.0, ""
    evidence = math.fsum(checks.ratio_evidence for checks in checked.values()) / len(checked)
    worst = max(checked, key=lambda value: checked[value].ratio_evidence)
    users = users_by_variant(checked[worst].users)
    return evidence, f"in {segment} = {worst} users are not split as planned ({users})"


def check_within(
    checks: Checks,
    segment: str,
    audiences: Mapping[str, Mapping[str, Audience]],
    plans: Sequence[PlannedShares],
) -> Checks:
    """The checks if variants are compared within a segment: users are split as planned there.

    A variant that moves users from one value to another is found by the others.

    `audiences`: see `split_within`.
    """
    evidence, worst = split_within(segment, audiences, plans, same_users=checks.same_users)
    reasons = [*_distrust_reasons(replace(checks, ratio_evidence=1.0))]
    if evidence >= ALARM:
        reasons.append(
            f"{worst}: something removes or adds users of one variant there, or a variant moves "
            f"users to another {segment}"
        )
    return replace(
        checks, ratio_evidence=evidence, trouble=tuple(reasons), segment_evidence=evidence
    )


def _distrust_reasons(checks: Checks) -> Iterator[str]:
    control = next(iter(checks.users))
    if checks.ratio_evidence >= ALARM and not checks.users[control]:
        yield (
            f"no user of the control {control!r} was counted ({split_text(checks)}): does "
            "`control` match the value in the records?"
        )
    elif checks.ratio_evidence >= ALARM:
        yield (
            f"users are not split as planned ({split_text(checks)}): something removes or adds "
            "users of one variant, and the missing users may differ from the others"
        )
    if checks.shared_evidence >= ALARM:
        moved = [
            f"{percent(share)} moved from {' to '.join(name.split(' -> '))}"
            for name, share in sorted(checks.moved.items(), key=lambda pair: -pair[1])
        ]
        movement_text = f" ({', '.join(moved)})" if moved else ""
        yield (
            f"{percent(checks.shared)} of the users are in several variants{movement_text}: "
            "the assignment is not stable; if that is by design, set same_users (--same-users)"
        )
    if checks.anonymous > MOST_ANONYMOUS:
        yield (
            f"{percent(checks.anonymous)} of a variant's lists have no user id: their users may be "
            "counted many times; send user ids with at least "
            f"{percent(1 - MOST_ANONYMOUS)} of the lists"
        )
    elif checks.uneven_evidence >= ALARM:
        yield (
            "lists without a user id are more frequent in some variant "
            f"(up to {percent(checks.anonymous)}): their senders differ between the variants"
        )
    if _loses_labels(checks):
        yield (
            f"{_unlabelled_users(checks)}: lists of one variant lose it, so the remaining lists "
            "are not comparable; send the variant with every list"
        )


def unlabelled_note(checks: Checks) -> Iterator[str]:
    """Note that lists without a variant are more frequent in some variant, unless a check fails."""
    if checks.unlabelled_evidence >= MUCH and not _loses_labels(checks):
        yield f"{_unlabelled_users(checks)}: these lists are left out"


def _loses_labels(checks: Checks) -> bool:
    shares = checks.unlabelled.values()
    return checks.unlabelled_evidence >= ALARM and max(shares) >= MOST_TIMES * min(shares)


def unlabelled_text(checks: Checks) -> str:
    """The share of the users of each variant who also have lists without one; "" if nobody has."""
    if not any(checks.unlabelled.values()):
        return ""
    return ", ".join(f"{name} {percent(share)}" for name, share in checks.unlabelled.items())


def _unlabelled_users(checks: Checks) -> str:
    by_share = sorted(checks.unlabelled, key=lambda name: checks.unlabelled[name])
    least, most = by_share[0], by_share[-1]
    return (
        f"{percent(checks.unlabelled[most])} of {most}'s users also have lists without a variant, "
        f"but only {percent(checks.unlabelled[least])} of {least}'s"
    )


def split_text(checks: Checks) -> str:
    """The users of each variant and their planned shares.

    On a ramp those of the newest shares, or of the ones that they are least split by.
    """
    split = checks.splits[-1]
    if checks.ratio_evidence >= ALARM:
        split = max(checks.splits, key=lambda split: split.evidence)
    dated = len(checks.splits) > 1
    counts = split.users if dated else checks.users
    users = users_by_variant(counts, is_sample=checks.is_sample and not dated)
    when = "before the first change" if split is checks.splits[0] else f"new since {split.since}"
    return f"{f'{when}: ' if dated else ''}{users}; planned {planned_text(split.shares)}"


def users_by_variant(users: Mapping[str, float], *, is_sample: bool = False) -> str:
    """The number of users of each variant; `is_sample`: whether they are estimates.

    Example:
        >>> users_by_variant({"control": 1234.0, "b": 5})
        'control 1,234, b 5'
        >>> users_by_variant({"control": 1_048_575.6}, is_sample=True)
        'control about 1,048,576'
    """
    about = "about " * is_sample
    return ", ".join(f"{name} {about}{count:,.0f}" for name, count in users.items())


def planned_text(shares: Mapping[str, float]) -> str:
    """The planned shares in words.

    Example:
        >>> planned_text({"control": 0.5, "b": 0.5}), planned_text({"control": 0.9, "b": 0.1})
        ('50.0 % each', 'control 90.0 %, b 10.0 %')
    """
    first, *others = shares.values()
    if all(math.isclose(share, first) for share in others):
        return f"{percent(first)} each"
    return ", ".join(f"{name} {percent(share)}" for name, share in shares.items())


def users_text(checks: Checks) -> str:
    """The users of each variant, and whether they are split as planned."""
    if checks.same_users:
        users = users_by_variant(checks.users, is_sample=checks.is_sample)
        return f"{users}: users see several variants"
    split = "NOT as planned" if checks.ratio_evidence >= ALARM else "as planned"
    return f"{split_text(checks)}, {split} ({imbalance_text(checks)})"


def imbalance_text(checks: Checks) -> str:
    """The smallest imbalance that the check of the split would find."""
    if checks.same_users:
        return "the variants share their users by design"
    if checks.smallest_imbalance is None:
        return "too few users to see an imbalance"
    name, share = next(iter(checks.splits[-1].shares.items()))
    noticed = percent(share - checks.smallest_imbalance)
    return f"{noticed} of the users in {name} instead of {percent(share)} would be noticed"
