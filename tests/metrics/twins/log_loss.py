import math
from collections.abc import Sequence
from typing import Any

from tests.metrics.preparation import Shown, by_type, over_events
from tests.metrics.samples import samples_of


@by_type
def log_loss(
    events: Sequence[Shown], _: int | None, *, outcome: str = "relevant", **how: Any
) -> float:
    """-ln of the probability that was given to what happened; averaged over items."""
    values = []
    for event in events:
        for score, gain in samples_of(event):
            chance = min(max(score, 1e-15), 1 - 1e-15)
            share = (gain or 0.0) if outcome == "gain" else float((gain or 0.0) > 0)
            values.append(-share * math.log(chance) - (1 - share) * math.log(1 - chance))
    return over_events(values, events, **how)
