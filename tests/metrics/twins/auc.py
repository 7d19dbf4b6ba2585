import math
from collections.abc import Sequence

from tests.metrics.preparation import Shown, by_type
from tests.metrics.samples import outcomes_of, pairs_in_order


@by_type
def auc(
    events: Sequence[Shown],
    _: int | None,
    *,
    positive: str = "relevant",
    single: bool = False,
) -> float:
    """Pairs in the right order over all pairs, of the items of all lists."""
    pooled = [each for event in events for each in outcomes_of(event, positive, single=single)]
    right, pairs = pairs_in_order(pooled)
    return right / pairs if pairs else math.nan
