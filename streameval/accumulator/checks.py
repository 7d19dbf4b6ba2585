"""Checks of an experiment: the sample ratio, users in several variants, and missing user ids."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np

from streameval.accumulator.comparison import percent
from streameval.accumulator.uncertainty import LARGEST_EVIDENCE, MOST_ANONYMOUS, log_beta_tail
from streameval.statistics.intervals import Audience

ALARM: Final = 1000.0
"""Evidence at which a check raises an alarm."""

MOST_SHARED: Final = 0.01
"""Share of users in several variants that is accidental, for example by shared computers."""

SAME_USERS: Final = 0.9
"""Share of users in several variants from which it is by design, as with interleaving."""

_CERTAINTY: Final = 100.0
"""Concentration of the Dirichlet prior of the sample ratio around the planned shares, in users."""


class Checks(msgspec.Struct, frozen=True, kw_only=True):
    """Results of the checks of an experiment.

    Attributes:
        users: number of users of each variant, control first; an estimate if there are very many.
        shares: planned share of each variant; they sum to 1.
        ratio_evidence: e-value against the planned split of users; 1 if users are the same.
        shared: share of users in several variants.
        shared_evidence: e-value against `shared` being accidental; 1 if users are the same.
        same_users: whether users meet several variants by design.
        anonymous: largest share of lists without a user id in any variant.
        left_out: values of the label that are not variants of the experiment.
        trouble: reasons not to trust any verdict, one sentence each.
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


def checked(
    audiences: Mapping[str, Audience],
    shares: Mapping[str, float],
    *,
    same_users: bool,
    left_out: Sequence[str] = (),
) -> Checks:
    """Check the users of the variants.

    `audiences`: users of each variant, control first. `shares`: planned shares in any unit; the
    default is 1.
    """
    counts, shared, users = _counted(list(audiences.values()))
    smallest = min(counts)
    same = same_users or (smallest > 0 and shared >= SAME_USERS * smallest)
    planned = {name: shares.get(name, 1.0) for name in audiences}
    whole = sum(planned.values())
    split = {name: share / whole for name, share in planned.items()}
    ratio = 1.0 if same else ratio_evidence(counts, list(split.values()))
    leak = 1.0 if same else shared_evidence(shared, users)
    found = Checks(
        users={name: each.users for name, each in audiences.items()},
        shares=split,
        ratio_evidence=ratio,
        shared=shared / users if users else 0.0,
        shared_evidence=leak,
        same_users=same,
        anonymous=max(each.anonymous / max(each.lists, 1) for each in audiences.values()),
        left_out=tuple(left_out),
    )
    return msgspec.structs.replace(found, trouble=tuple(_trouble(found)))


def ratio_evidence(users: Sequence[int], shares: Sequence[float]) -> float:
    """E-value against the planned split of users: a Dirichlet-multinomial against the plan.

    `shares`: planned shares, which sum to 1.

    Example:
        >>> ratio_evidence([10_050, 9_950], [0.5, 0.5]) < 1
        True
        >>> ratio_evidence([10_400, 9_600], [0.5, 0.5]) > 1000
        True
    """
    found = math.lgamma(_CERTAINTY) - math.lgamma(_CERTAINTY + sum(users))
    for count, share in zip(users, shares, strict=True):
        prior = _CERTAINTY * share
        found += math.lgamma(prior + count) - math.lgamma(prior) - count * math.log(share)
    return math.exp(min(found, math.log(LARGEST_EVIDENCE)))


def shared_evidence(shared: int, users: int) -> float:
    """E-value for more than 1 % of users in several variants: a uniform mixture of larger shares.

    Example:
        >>> shared_evidence(100, 20_000) < 1, shared_evidence(300, 20_000) > 1000
        (True, True)
    """
    rest = users - shared
    found = math.lgamma(shared + 1) + math.lgamma(rest + 1) - math.lgamma(users + 2)
    found += log_beta_tail(MOST_SHARED, shared + 1.0, rest + 1.0)
    found -= (rest + 1) * math.log1p(-MOST_SHARED) + shared * math.log(MOST_SHARED)
    return math.exp(min(found, math.log(LARGEST_EVIDENCE)))


def _counted(audiences: Sequence[Audience]) -> tuple[list[int], int, int]:
    """Users of each variant below the common threshold, users in several variants, all users."""
    threshold = min(each.threshold for each in audiences)
    below = [
        each.hashes if threshold >= 2**64 else each.hashes[each.hashes < threshold]
        for each in audiences
    ]
    _, times = np.unique(np.concatenate(below), return_counts=True)
    return [len(each) for each in below], int((times > 1).sum()), len(times)


def _trouble(checks: Checks) -> Iterator[str]:
    if checks.ratio_evidence >= ALARM:
        found = ", ".join(f"{name} {count:,.0f}" for name, count in checks.users.items())
        planned = " : ".join(map(percent, checks.shares.values()))
        yield (
            f"users are not split as planned ({found}; planned {planned}): something loses or adds "
            "users of one variant, and the missing users may differ from the others"
        )
    if checks.shared_evidence >= ALARM:
        yield (
            f"{percent(checks.shared)} of the users are in several variants: the assignment is not "
            "stable; if that is by design, set same_users (--same-users)"
        )
    if checks.anonymous > MOST_ANONYMOUS:
        yield (
            f"{percent(checks.anonymous)} of a variant's lists have no user id: their users may be "
            "counted many times; send user ids with at least "
            f"{percent(1 - MOST_ANONYMOUS)} of the lists"
        )
