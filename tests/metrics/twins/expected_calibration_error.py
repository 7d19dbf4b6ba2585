import math
from collections.abc import Sequence
from fractions import Fraction

from tests.metrics.preparation import Shown, by_type
from tests.metrics.samples import outcomes_of


@by_type
def expected_calibration_error(
    events: Sequence[Shown],
    _: int | None,
    *,
    bins: int = 10,
    positive: str = "relevant",
    single: bool = False,
) -> float:
    """|share of positives - mean score| of each bin, weighted by its items."""
    pooled = [each for event in events for each in outcomes_of(event, positive, single=single)]
    error = Fraction(0)
    for number in range(1, bins + 1):
        low, high = (number - 1) / bins, number / bins
        inside = [
            (Fraction(min(max(score, 0.0), 1.0)), good)
            for score, good in pooled
            if low < min(max(score, 0.0), 1.0) <= high or (number == 1 and score <= 0)
        ]
        expected = sum((score for score, _ in inside), Fraction(0))
        error += abs(sum(good for _, good in inside) - expected)
    return float(error / len(pooled)) if pooled else math.nan
