import math
from collections.abc import Sequence

from tests.metrics.exposures import items_shown
from tests.metrics.preparation import Shown


def distinct_items(events: Sequence[Shown], k: int | None) -> float:
    """Size of the union of what was shown."""
    return float(len(set(items_shown(events, k)))) if events else math.nan
