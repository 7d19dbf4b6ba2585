import math
from collections.abc import Sequence
from typing import Any

from tests.metrics.exposures import items_shown
from tests.metrics.preparation import Shown
from tests.metrics.summaries import summary_of


def distinct_items(events: Sequence[Shown], k: int | None, **how: Any) -> float:
    """Size of the union of what was shown."""
    value = float(len(set(items_shown(events, k)))) if events else math.nan
    return summary_of([value], **how)
