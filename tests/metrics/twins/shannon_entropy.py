import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from tests.metrics.exposures import items_shown
from tests.metrics.preparation import Shown
from tests.metrics.summaries import summary_of


def shannon_entropy(
    events: Sequence[Shown],
    k: int | None,
    *,
    unit: str = "bits",
    divisor: str = "one",
    **how: Any,
) -> float:
    """Sum of -p log p."""
    shown = items_shown(events, k)
    if not shown:
        return math.nan
    shares = [count / len(shown) for count in Counter(shown).values()]
    entropy = -math.fsum(share * math.log(share) for share in shares)
    entropy /= len(shares) if divisor == "items" else 1
    return summary_of([entropy / math.log(2) if unit == "bits" else entropy], **how)
