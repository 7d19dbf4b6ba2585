import math
from collections.abc import Sequence
from typing import Any

from tests.metrics.preparation import Shown, over_events
from tests.metrics.samples import outcomes_of


def log_loss(events: Sequence[Shown], k: int | None, **how: Any) -> float:
    """-ln of the probability that was given to what happened; averaged over items."""
    values = []
    for event in events:
        for score, good in outcomes_of(event, "relevant", single=False):
            chance = min(max(score, 1e-15), 1 - 1e-15)
            values.append(-math.log(chance) if good else -math.log(1 - chance))
    return over_events(values, events, **how)
