import math
from collections.abc import Sequence

from tests.metrics.preparation import Shown, by_type
from tests.metrics.samples import outcomes_of
from tests.metrics.summaries import mean


@by_type
def normalised_entropy(
    events: Sequence[Shown],
    _: int | None,
    *,
    positive: str = "relevant",
    single: bool = False,
) -> float:
    """Mean log loss of the scores over the mean log loss of the share of positives."""
    pooled = [each for event in events for each in outcomes_of(event, positive, single=single)]
    share = mean([float(good) for _, good in pooled])
    if math.isnan(share) or share in (0.0, 1.0):
        return math.nan

    def lost(chance: float, *, good: bool) -> float:
        chance = min(max(chance, 1e-15), 1 - 1e-15)
        return -math.log(chance) if good else -math.log(1 - chance)

    found = mean([lost(score, good=good) for score, good in pooled])
    return found / mean([lost(share, good=good) for _, good in pooled])
