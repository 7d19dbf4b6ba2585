"""Two slices compared by their group sums."""

from __future__ import annotations

from streameval.analyses.experiments.comparison import Comparison, Settings, contrast_of, judge
from streameval.statistics.intervals import GroupSums, Method


def compare_sums(
    control: GroupSums,
    treatment: GroupSums,
    *,
    method: Method = "anytime",
    precision: float = 0.02,
    confidence: float = 0.95,
    higher_is_better: bool | None = True,
) -> Comparison:
    """The comparison of all days that both have."""
    settings = Settings(method, precision, confidence, higher_is_better)
    return judge(contrast_of(control, treatment), settings)
