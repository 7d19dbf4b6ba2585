"""What a gap says in words."""

from __future__ import annotations

from streameval.analyses.gaps.report import Gap, GapValue
from streameval.exporters.view import figure


def gap_text(gap: Gap) -> str:
    """The difference, the ratio and the values that may be the worst, in a sentence or two.

    Example:
        >>> gap_text(Gap(metric="ctr", kind="fixed", confidence=0.95))
        'fewer than two values can be compared.'
        >>> bounds = {"difference": 0.1, "low": 0.0, "high": 0.2}
        >>> gap_text(Gap(metric="ctr", **bounds, kind="fixed", confidence=0.95))
        'difference 0.1000 (0.0000 to 0.2000), which may be chance.'
    """
    if gap.difference is None:
        return "fewer than two values can be compared."
    if gap.low is None or gap.high is None:
        return f"difference {figure(gap.difference)}; nothing varies between users."
    parts = [_with_bounds("difference", gap.difference, gap.low, gap.high)]
    if gap.ratio is not None and gap.ratio_low is not None and gap.ratio_high is not None:
        parts.append(_with_bounds("ratio", gap.ratio, gap.ratio_low, gap.ratio_high))
    chance = ", which may be chance" if gap.low <= 0 else ""
    worst = gap.worst
    named = f" The worst is {'' if len(worst) == 1 else 'one of '}{', '.join(worst)}."
    return f"{', '.join(parts)}{chance}.{named if not chance else ''}"


def worst_text(value: GapValue, gap: Gap) -> str:
    """The mark of a value that may be the worst; empty for others."""
    if not value.worst:
        return ""
    return "the worst" if len(gap.worst) == 1 else "may be the worst"


def _with_bounds(name: str, value: float, low: float, high: float) -> str:
    return f"{name} {figure(value)} ({figure(low)} to {figure(high)})"
