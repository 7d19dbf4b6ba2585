"""What a gap is: the worst and the best mean of the values of a label, as data."""

from __future__ import annotations

import msgspec

from streameval.statistics.intervals import Kind


class GapValue(msgspec.Struct, frozen=True, kw_only=True):
    """The mean of one value of the label.

    Attributes:
        name: the value of the label.
        mean: None without evidence.
        low: lower bound of the mean by itself; None without an interval.
        high: upper bound.
        worst: whether it may be the worst of those compared.
        left_out: reason that it is not compared, a sentence; None if it is.
    """

    name: str
    mean: float | None
    low: float | None = None
    high: float | None = None
    worst: bool = False
    left_out: str | None = None


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """The worst and the best mean of the values of a label.

    The bounds hold together for all pairs of values. They are None with fewer than two values that
    can be compared, or if nothing varies between users.

    Attributes:
        metric: canonical text.
        difference: the largest mean minus the smallest; None with fewer than two values.
        low: lower bound of the difference, at least 0: above 0, the values surely differ.
        high: upper bound.
        ratio: smallest mean / largest mean; None if a mean is below 0, or all are 0.
        ratio_low: lower bound of the ratio.
        ratio_high: upper bound, at most 1.
        values: every value of the label, the smallest mean first.
        kind: method of the bounds: "fixed", "anytime" or "pointwise".
        confidence: how often such bounds cover the truth.

    Example:
        >>> Gap(metric="ctr", kind="fixed", confidence=0.95).compared
        ()
    """

    metric: str
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    values: tuple[GapValue, ...] = ()
    kind: Kind
    confidence: float

    @property
    def worst(self) -> tuple[str, ...]:
        """The values that may be the worst: the lowest, or the highest if lower is better."""
        return tuple(value.name for value in self.values if value.worst)

    @property
    def compared(self) -> tuple[str, ...]:
        """The values that are compared, the smallest mean first."""
        return tuple(value.name for value in self.values if value.left_out is None)

    @property
    def left_out(self) -> dict[str, str]:
        """Value -> the reason that it is not compared."""
        return {value.name: value.left_out for value in self.values if value.left_out is not None}


class GapSeries(msgspec.Struct, frozen=True, kw_only=True):
    """The gap between the values of a label in one window.

    Attributes:
        by: label or segment whose values are compared.
        labels: the other labels, name to value.
        window: span of event time such as 5m, or lifetime.
        at_most: largest accepted difference; None without a limit.
        gap: difference and ratio with bounds that hold together, and the values.
    """

    by: str
    labels: dict[str, str]
    window: str
    at_most: float | None
    gap: Gap
