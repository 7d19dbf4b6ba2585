import math
from collections.abc import Sequence

from tests.metrics.preparation import Shown


def distinct_items(events: Sequence[Shown], k: int | None) -> float:
    """Size of the union of what was shown."""
    union = set()
    for event in events:
        ranks = event.positions or range(1, len(event.recommendations) + 1)
        pairs = zip(ranks, event.recommendations, strict=True)
        union |= {item for rank, item in pairs if k is None or rank <= k}
    return float(len(union)) if events else math.nan
