"""Evidence about the users of variants: their split, users in several, and missing user ids."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Final

import msgspec
import numpy as np

from streameval.decoding.values import MISSING_LABEL
from streameval.inference.days import number_of_day
from streameval.inference.interval_formulas import LARGEST_EVIDENCE, MOST_ANONYMOUS, log_beta_tail
from streameval.inference.words import percent
from streameval.statistics.arrays import BoolArray
from streameval.statistics.intervals import Audience

ALARM: Final = 1000.0
"""Evidence at which a check raises an alarm."""

MUCH: Final = 100.0
"""Evidence at which a note says that something without a verdict differs."""

MOST_SHARED: Final = 0.01
"""Share of users in several variants that is accidental, for example by shared computers."""

MOST_UNEVEN: Final = 0.005
"""Difference between variants in the share of lists without a user id that does not matter."""

_MOST_UNLIKE: Final = 0.01
"""Difference between arms in the share of users treated before that does not matter."""

_SURE: Final = 3.0
"""Standard errors beyond which such a difference is not chance."""

MOST_TIMES: Final = 2.0
"""Ratio of the shares of users with lists without a variant, from which on lists were lost: users
who come more often have such lists more often, too, where a variant is sent with some pages."""

_CERTAINTIES: Final = (100.0, 10_000.0)
"""Concentrations of the Dirichlet priors of the sample ratio around the planned shares, in users:
the first finds a large imbalance of few users, the second a small one of many."""

_REACH: Final = 2.326
"""Standard errors that 99 of 100 samples do not fall short by."""


def ratio_evidence(users: Sequence[int], shares: Sequence[float]) -> float:
    """E-value against the planned split of users: a mixture of two Dirichlet-multinomials.

    `shares`: planned shares, which sum to 1.

    Example:
        >>> ratio_evidence([10_050, 9_950], [0.5, 0.5]) < 1
        True
        >>> ratio_evidence([10_400, 9_600], [0.5, 0.5]) > 1000
        True
    """
    logs = []
    for certainty in _CERTAINTIES:
        log = math.lgamma(certainty) - math.lgamma(certainty + sum(users))
        for count, share in zip(users, shares, strict=True):
            prior = certainty * share
            log += math.lgamma(prior + count) - math.lgamma(prior) - count * math.log(share)
        logs.append(log)
    most = max(logs)
    mean = sum(math.exp(log - most) for log in logs) / len(logs)
    return math.exp(min(most + math.log(mean), math.log(LARGEST_EVIDENCE)))


def smallest_imbalance(users: int, shares: Sequence[float]) -> float | None:
    """The shift of the first share that `ratio_evidence` finds in 99 of 100 samples.

    None if there are too few users to find any.

    Example:
        >>> round(smallest_imbalance(524_288, [0.5, 0.5]), 4)
        0.0046
    """
    low, high = 0.0, shares[0]
    if not _is_detectable(users, shares, high):
        return None
    while high - low > 1e-3 * high:
        shift = (low + high) / 2.0
        low, high = (low, shift) if _is_detectable(users, shares, shift) else (shift, high)
    return high


def _is_detectable(users: int, shares: Sequence[float], shift: float) -> bool:
    first, *others = shares
    noise = _REACH * math.sqrt(users * first * (1.0 - first))
    lost = max(users * shift - noise, 0.0)
    spread = lost / (1.0 - first) if first < 1.0 else 0.0
    counts = [users * first - lost, *(users * other + spread * other for other in others)]
    return ratio_evidence([round(count) for count in counts], shares) >= ALARM


def shared_evidence(shared: int, users: int) -> float:
    """E-value for more than 1 % of users in several variants: a uniform mixture of larger shares.

    Example:
        >>> shared_evidence(100, 20_000) < 1, shared_evidence(300, 20_000) > 1000
        (True, True)
    """
    rest = users - shared
    evidence = math.lgamma(shared + 1) + math.lgamma(rest + 1) - math.lgamma(users + 2)
    evidence += log_beta_tail(MOST_SHARED, shared + 1.0, rest + 1.0)
    evidence -= (rest + 1) * math.log1p(-MOST_SHARED) + shared * math.log(MOST_SHARED)
    return math.exp(min(evidence, math.log(LARGEST_EVIDENCE)))


def anonymous_shares(audiences: Sequence[Audience]) -> list[float]:
    """Share of the lists of each variant without a user id; 0 without lists."""
    return [audience.anonymous / max(audience.lists, 1) for audience in audiences]


def uneven_evidence(audiences: Sequence[Audience]) -> float:
    """E-value for lists without a user id being more frequent in some variant.

    1 if the shares differ by at most 0.5 %.
    """
    shares = anonymous_shares(audiences)
    begun = [audience for audience in audiences if audience.lists]
    if len(begun) < 2 or max(shares) - min(shares) <= MOST_UNEVEN:
        return 1.0
    lists = sum(audience.lists for audience in begun)
    planned = [audience.lists / lists for audience in begun]
    return ratio_evidence([audience.anonymous for audience in begun], planned)


def unlabelled_shares(arms: Mapping[str, Audience], missing: Audience) -> dict[str, float]:
    """Share of the users of each variant who also have lists without a variant; 0 without users.

    `missing`: the users of the lists without a variant, of the days of the arms.
    """
    return {
        name: some / users if users else 0.0
        for name, (some, users) in _unlabelled_counts(arms, missing).items()
    }


def unlabelled_evidence(arms: Mapping[str, Audience], missing: Audience) -> float:
    """E-value for users of some variant having lists without a variant more often.

    1 if the shares differ by at most 0.5 %. Users count, as the lists of one resemble each other.
    """
    counts = [pair for pair in _unlabelled_counts(arms, missing).values() if pair[1]]
    shares = [some / users for some, users in counts]
    if len(counts) < 2 or max(shares) - min(shares) <= MOST_UNEVEN:
        return 1.0
    every = sum(users for _, users in counts)
    return ratio_evidence([some for some, _ in counts], [users / every for _, users in counts])


def _unlabelled_counts(
    arms: Mapping[str, Audience], missing: Audience
) -> dict[str, tuple[int, int]]:
    """Users of each variant with lists without a variant, and all users, of one sample."""
    threshold = min(missing.threshold, *(arm.threshold for arm in arms.values()))
    hashes = missing.below(threshold).hashes
    counts = {}
    for name, arm in arms.items():
        users = arm.below(threshold).hashes
        counts[name] = int(np.isin(users, hashes).sum()), users.size
    return counts


def lack_ids(audiences: Sequence[Audience]) -> bool:
    """Check whether too many lists have no user id, or more of them in some variant."""
    shares = anonymous_shares(audiences)
    return max(shares) > MOST_ANONYMOUS or uneven_evidence(audiences) >= ALARM


class Crowd:
    """The users of all variants whose hashes are below a common threshold.

    Attributes:
        users: number of users.
        shared: number of users in several variants.
    """

    def __init__(self, audiences: Mapping[str, Audience]) -> None:
        self.names = tuple(audiences)
        threshold = min(audience.threshold for audience in audiences.values())
        arms = [audience.below(threshold) for audience in audiences.values()]
        hashes, users = np.unique(np.concatenate([arm.hashes for arm in arms]), return_inverse=True)
        sizes = [arm.hashes.size for arm in arms]
        self.users = int(hashes.size)
        self._user = users.reshape(-1)
        self._arm = np.repeat(np.arange(len(arms)), sizes)
        self._day = np.concatenate([arm.first for arm in arms])
        self._first = np.full(self.users, np.iinfo(np.int64).max)
        np.minimum.at(self._first, self._user, self._day)
        self._times = np.bincount(self._user, minlength=self.users)
        self.shared = int((self._times > 1).sum())

    def counts(self, first: int | None, end: int | None) -> list[int]:
        """Users of each variant whose first day is from `first` to before `end`.

        A user of several variants counts in the one that came first.
        """
        days = self._first[self._user]
        counted: BoolArray = self._day == days
        if first is not None:
            counted &= days >= first
        if end is not None:
            counted &= days < end
        counts = np.bincount(self._arm[counted], minlength=len(self.names))
        return [int(count) for count in counts]

    def movements(self) -> dict[tuple[str, str], int]:
        """Users by the variant that they saw first, and another one that they saw last.

        Both are equal for users who saw several variants on one day only.
        """
        rows = np.flatnonzero(self._times[self._user] > 1)
        order = rows[np.lexsort((self._arm[rows], self._day[rows], self._user[rows]))]
        ends = np.flatnonzero(np.diff(self._user[order], append=-1))
        starts = np.concatenate(([0], ends[:-1] + 1)) if ends.size else ends
        is_same_day = self._day[order[starts]] == self._day[order[ends]]
        goals = np.where(is_same_day, self._arm[order[starts]], self._arm[order[ends]])
        size = len(self.names)
        counts = np.bincount(self._arm[order[starts]] * size + goals, minlength=size * size)
        return {
            (self.names[code // size], self.names[code % size]): int(counts[code])
            for code in np.flatnonzero(counts).tolist()
        }


class TreatedBefore(msgspec.Struct, frozen=True, kw_only=True):
    """Unlike shares of users of two arms who were in a treatment before the experiment began.

    What these did before may be an effect of the treatment, and no covariate.

    Attributes:
        control: share of control's users.
        variant: share of the variant's users.
        treatments: the treatments that they were in.
    """

    control: float
    variant: float
    treatments: tuple[str, ...]

    def text(self, control: str, variant: str, day: str) -> str:
        """The larger share in a clause; `day`: on which the experiment began, in words.

        Example:
            >>> treated = TreatedBefore(control=0.0, variant=1.0, treatments=("b",))
            >>> treated.text("control", "b", "2026-03-01")
            '100 % of the users of b were in b before 2026-03-01'
        """
        share, arm = max((self.variant, variant), (self.control, control))
        where = " or ".join(self.treatments) if len(self.treatments) < 3 else "a treatment"
        return f"{percent(share)} of the users of {arm} were in {where} before {day}"


def treated_before(
    arms: Mapping[str, Audience], variants: Mapping[str, Audience], since: date
) -> dict[str, TreatedBefore]:
    """The treatments of an experiment whose users, or control's, were treated before it.

    If both arms hold as many of these users, they were reassigned, and pre-experiment data
    does not depend on this assignment.

    `arms`: users from `since` on, control first. `variants`: users of all variants at any time.
    """
    control, *treatments = arms
    first = number_of_day(since)
    earlier = {
        name: audience.hashes[audience.first < first]
        for name, audience in variants.items()
        if name not in {control, MISSING_LABEL}
    }
    treated = np.concatenate([np.zeros(0, np.uint64), *earlier.values()])
    if not treated.size:
        return {}
    threshold = min(arm.threshold for arm in (*arms.values(), *variants.values()))
    users = {name: arm.below(threshold).hashes for name, arm in arms.items()}
    counts = {name: int(np.isin(hashes, treated).sum()) for name, hashes in users.items()}
    names = tuple(name for name, hashes in sorted(earlier.items()) if hashes.size)
    unlike = {}
    for name in treatments:
        sizes = [users[arm].size for arm in (control, name)]
        if not all(sizes):
            continue
        of_control, of_variant = (counts[arm] / users[arm].size for arm in (control, name))
        mean = (counts[control] + counts[name]) / sum(sizes)
        error = math.sqrt(mean * (1.0 - mean) * sum(1.0 / size for size in sizes))
        if abs(of_variant - of_control) > max(_MOST_UNLIKE, _SURE * error):
            unlike[name] = TreatedBefore(control=of_control, variant=of_variant, treatments=names)
    return unlike
