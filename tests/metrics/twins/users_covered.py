import math
from collections.abc import Sequence

from tests.metrics.preparation import Id, Shown, good


def users_covered(events: Sequence[Shown], k: int | None, *, having: str = "item") -> float:
    """Size of the set of users with something at a rank up to k."""

    def found(event: Shown) -> bool:
        ranks = event.positions or range(1, len(event.recommendations) + 1)
        wanted: set[Id] = set(event.recommendations) if having == "item" else good(event)
        pairs = zip(event.recommendations, ranks, strict=True)
        return any(item in wanted and (k is None or rank <= k) for item, rank in pairs)

    known = [event for event in events if event.user is not None]
    return float(len({event.user for event in known if found(event)})) if known else math.nan
