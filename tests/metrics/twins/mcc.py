import math
from collections.abc import Sequence
from typing import Any

from tests.metrics.confusion import table
from tests.metrics.preparation import Id, Shown, by_type, over_events


@by_type
def mcc(
    events: Sequence[Shown],
    k: int | None,
    *,
    catalog: frozenset[Id],
    unknown: str = "ignore",
    denominator: str = "length",
    empty: str = "skip",
    **how: Any,
) -> float:
    """Correlation of shown with interacted, item by item; averaged over lists."""

    def per_event(event: Shown) -> float | None:
        tp, fp, fn, tn = table(event, k, catalog, unknown)
        if tn < 0:
            return None
        if tp + fn == 0:
            return 0.0 if empty == "zero" else None
        if denominator == "k" and k is not None:
            missing = k - tp - fp
            fp, tn = fp + missing, tn - missing
        if tn < 0:
            return None
        shown = [1.0] * (tp + fp) + [0.0] * (fn + tn)
        wanted = [1.0] * tp + [0.0] * fp + [1.0] * fn + [0.0] * tn
        return _correlation(shown, wanted)

    return over_events([per_event(event) for event in events], events, **how)


def _correlation(left: list[float], right: list[float]) -> float:
    if len({*left}) < 2 or len({*right}) < 2:
        return 0.0
    a, b = (math.fsum(column) / len(column) for column in (left, right))
    together = math.fsum((x - a) * (y - b) for x, y in zip(left, right, strict=True))
    apart = (math.fsum((x - mean) ** 2 for x in column) for column, mean in ((left, a), (right, b)))
    return together / math.sqrt(math.prod(apart))
