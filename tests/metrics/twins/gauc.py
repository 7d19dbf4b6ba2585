import math
from collections.abc import Sequence

from tests.metrics.preparation import Shown, by_type
from tests.metrics.samples import outcomes_of, pairs_in_order


@by_type
def gauc(
    events: Sequence[Shown],
    _: int | None,
    *,
    weight: str = "positives",
    positive: str = "relevant",
    single: bool = False,
) -> float:
    """Pairs in the right order over all pairs of each list; averaged with a weight."""
    areas, weights = [], []
    for event in events:
        outcomes = outcomes_of(event, positive, single=single)
        right, pairs = pairs_in_order(outcomes)
        if pairs:
            areas.append(right / pairs)
            weights.append(sum(good for _, good in outcomes) if weight == "positives" else 1)
    weighted = math.fsum(area * each for area, each in zip(areas, weights, strict=True))
    return weighted / sum(weights) if weights else math.nan
