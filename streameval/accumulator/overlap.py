"""Whether a log can judge a policy that it did not show: overlap, mean weight and clipped lists."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from msgspec.structs import replace

from streameval.accumulator.formulas import Summed
from streameval.accumulator.kinds.events import event_values, overlap_metric
from streameval.accumulator.table import Table
from streameval.catalogue.metric import Metric
from streameval.catalogue.reading import Reading
from streameval.catalogue.signature import Reference
from streameval.inference.interval_formulas import MOST_ANONYMOUS, NOISE, interval, pool_days
from streameval.statistics.arrays import IntArray
from streameval.statistics.distributions import Distribution
from streameval.statistics.intervals import GroupSums, Interval, Intervals, Method

FEWEST_REWARDS: Final = 20
"""Effective rewards below which intervals cover the truth less often than they say."""

LEAST_CLIPPED_WEIGHT: Final = 0.95
"""Mean clipped weight below which the clip hides too much of the policy."""


Side = Literal["below", "above", "between", "wide", "unknown"]


def side_of_reference(
    sums: GroupSums, intervals: Intervals, reference: Reference, kind: Method = "anytime"
) -> Side:
    """The side of a reference on which the interval of a mean is; "between" if it covers it.

    A value that is the same for all users has no interval, and needs none. "wide" if it
    covers the reference and reaches further than evidence may; "unknown" for too few users.

    Example:
        >>> import numpy as np
        >>> lists = np.ones((1, 64), np.int64)
        >>> sums = [GroupSums(np.zeros(1, int), lists * weight, lists) for weight in (1, 2)]
        >>> one = Reference(1.0, "low", "high")
        >>> [side_of_reference(weights, Intervals(), one) for weights in sums]
        ['between', 'above']
    """
    estimate = pool_days(sums)
    if not estimate.is_usable:
        return "unknown"
    covered = interval(sums, intervals, kind)
    low, high = (estimate.value,) * 2 if covered is None else (covered.low, covered.high)
    noise = NOISE * abs(reference.value)
    if high < reference.value - noise:
        return "below"
    if low > reference.value + noise:
        return "above"
    farthest = max(reference.value - low, high - reference.value)
    return "between" if farthest <= reference.widest else "wide"


class Overlap(NamedTuple):
    """The readings of `checks_of` an estimate.

    Attributes:
        side: on which side of 1 the mean weight is.
        weight: the mean weight without a clip.
        share: the effective share of the lists, with the clip.
        rewarded: the share of lists with a reward.
        clipped_weight: the mean clipped weight; None without a clip.
        clipped_lists: the share of lists with a clipped weight.
        limit: the largest reward of a list, as far as gains are 0 to 1; None if every item can be
            shown.
        least: chance with which any item is shown at least; 0 if it is not known.
    """

    side: Side
    weight: Reading
    share: Reading
    rewarded: Reading
    clipped_weight: Reading | None = None
    clipped_lists: Reading | None = None
    limit: Reading | None = None
    least: float = 0.0

    @property
    def clipped(self) -> list[Reading]:
        """The loss by a clip, as `clip_note` says it; empty without a clip."""
        return [*filter(None, (self.clipped_weight, self.clipped_lists))]

    @property
    def unseen(self) -> float:
        """The share of the policy's choices that the log may never have shown, at most."""
        covered = self.weight.interval
        low = self.weight.value if covered is None else covered.low
        return 0.0 if self.limit is None or 1.0 - low <= NOISE else 1.0 - low

    def allow(self, interval: Interval, metric: Metric) -> Interval:
        """The interval of an estimate, for any reward of what may never have been shown.

        A mean of what was shown, such as `snips`, is one of the rest of the choices; a model, as in
        `dr`, may have expected more of them.
        """
        unseen, limit = self.unseen, 0.0 if self.limit is None else self.limit.value
        if not unseen:
            return interval
        share = 1.0 if metric.definition.over is None else 1.0 - unseen
        modelled = unseen * limit if "predicted" in metric.definition.parameters else 0.0
        return replace(
            interval,
            low=interval.low * share - modelled,
            high=interval.high * share + unseen * limit,
        )

    @property
    def lists(self) -> float:
        """Effective lists: as many lists of equal weight make a mean as exact."""
        return self.share.value * self.share.count if self.share.defined else 0.0

    @property
    def rewards(self) -> float:
        """Effective lists with a reward."""
        return self.lists * self.rewarded.value if self.rewarded.defined else 0.0


def distrust(reading: Reading, overlap: Overlap) -> str | None:
    """The reason, in a sentence, not to trust an estimate; None without one."""
    lost = reading.lists - reading.count
    if lost > (0.0 if overlap.least else MOST_ANONYMOUS) * reading.lists:
        wrong = f", impossible or below {overlap.least:g}" if overlap.least else " or impossible"
        return (
            f"Do not trust it: {share_text(lost / reading.lists)} of the lists are left out, "
            f"because the chance of an item is missing{wrong}."
        )
    mean = f"the mean weight is {overlap.weight.value:.3g}{_bounds(overlap.weight)} instead of 1"
    if overlap.side == "below":
        missing = share_text(1.0 - overlap.weight.value)
        return (
            f"Do not trust it: {mean}: either {missing} of the policy's choices are never shown, "
            "or the logged propensities are too high (are they those of the items drawn?)."
        )
    if overlap.side == "above":
        return (
            f"Do not trust it: {mean}: the propensities are too low, or the policy's chances sum "
            "to more than 1."
        )
    if overlap.clipped and overlap.clipped[0].value < LEAST_CLIPPED_WEIGHT:
        return f"Do not trust it: {_lowered(clip_note(overlap.clipped) or '')}"
    return None


def lacking(overlap: Overlap) -> str | None:
    """The reason, in a sentence, that an estimate has no interval yet; None if it may have one."""
    lists, needed = overlap.share.count, FEWEST_REWARDS / (overlap.least or 1.0)
    if overlap.rewards < FEWEST_REWARDS:
        return (
            f"Too little overlap: the weights leave {overlap.rewards:.2g} effective rewards, in "
            f"{overlap.lists:,.1f} effective lists of {lists:,}; an interval needs "
            f"{FEWEST_REWARDS}."
        )
    if overlap.least and lists < needed:
        return (
            f"Too few lists: an item with the smallest chance, {overlap.least:g}, is shown "
            f"{FEWEST_REWARDS} times in {needed:,.0f} lists; there are {lists:,}."
        )
    limit = overlap.limit
    is_limited = limit is None or (limit.defined and limit.count == limit.lists)
    if not overlap.unseen or is_limited:
        return None
    return (
        f"Up to {share_text(overlap.unseen)} of the policy's choices may never have been shown, "
        "and gains outside 0 to 1 have no known limits: bring them to 0 to 1, or set the smallest "
        "propensity (least=), if every item can be shown."
    )


def unseen_note(overlap: Overlap) -> str | None:
    """The choices that the bounds allow for, in a sentence; None without any."""
    if not overlap.unseen:
        return None
    return (
        f"Up to {share_text(overlap.unseen)} of the policy's choices may never have been shown; "
        "the bounds allow for any value there (set the smallest propensity, if every item can be "
        "shown)."
    )


def bias_text(share: float) -> str:
    """The reason that replaces a verdict on lists that were not shown.

    `share`: of their items that the lists shown instead had, too.

    Example:
        >>> bias_text(0.5)
        'biased to the shown ranker: overlap 50 %'
    """
    return f"biased to the shown ranker: overlap {share_text(share)}"


def bias_reason(share: float) -> str:
    """The reason, in a sentence, not to judge lists that were not shown."""
    text = bias_text(share)
    return f"{text[:1].upper()}{text[1:]}; see ips."


def biases(table: Table, cells: IntArray) -> list[str | None]:
    """The bias of each of these cells, in a sentence; None without one."""
    return list(map(bias_of, _overlaps(table, cells))) or [None] * cells.size


def bias_of(*overlaps: Summed) -> str | None:
    """The bias of lists with these overlaps, in a sentence; None if all were shown."""
    share = _share(overlaps)
    return None if share is None else bias_reason(share)


def overlap_together(table: Table, cells: IntArray) -> float | None:
    """The overlap of all of these cells with the lists shown; None if all were shown."""
    return _share(_overlaps(table, cells))


def bias_together(table: Table, cells: IntArray) -> str | None:
    """The bias of all of these cells together, in a sentence; None without one."""
    return bias_of(*_overlaps(table, cells))


def _overlaps(table: Table, cells: IntArray) -> Sequence[Distribution]:
    metric = overlap_metric(table.plan.specs)
    return () if metric is None else event_values(metric, table).view(cells)


def _share(overlaps: Sequence[Summed]) -> float | None:
    count = sum(overlap.count for overlap in overlaps)
    return math.fsum(overlap.total for overlap in overlaps) / count if count else None


def clause_of(reason: str) -> str:
    """A reason of `distrust` or `lacking`, to be read after a verdict.

    Example:
        >>> clause_of("Do not trust it: the mean weight is 0.7 instead of 1.")
        'the mean weight is 0.7 instead of 1'
    """
    return _lowered(reason.removeprefix("Do not trust it: ").removesuffix("."))


def clip_note(clipped: Sequence[Reading]) -> str | None:
    """The loss by a clip, in a sentence; None without a clip: see `Overlap`."""
    if not clipped or not clipped[0].defined:
        return None
    mean, share = clipped
    return (
        f"Weights are clipped in {share_text(share.value)} of the lists, which leaves a mean "
        f"weight of {mean.value:.3g}."
    )


def _lowered(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


def _bounds(reading: Reading) -> str:
    covered = reading.interval
    return "" if covered is None else f" ({covered.low:.3g} to {covered.high:.3g})"


def share_text(share: float) -> str:
    """A share for people.

    Example:
        >>> share_text(0.3333), share_text(math.inf)
        ('33.3 %', 'all')
    """
    return f"{100.0 * share:.3g} %" if math.isfinite(share) else "all"
