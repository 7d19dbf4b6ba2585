import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.metrics.gains import discounted, ranked
from tests.metrics.preparation import Outcome, Shown, over_lists


def ndcg(
    events: Sequence[Shown],
    k: int | None,
    *,
    gain: str = "linear",
    discount_by: str = "log2",
    best: str = "cut",
    digits: int = 0,
    empty: str = "skip",
    **how: Any,
) -> float:
    """DCG of the list over DCG of the relevant items in their best order; averaged over lists."""

    def per_list(outcome: Outcome) -> float:
        most = len(outcome.gains) if k is None or best == "whole" else k
        order = outcome.gains[: min(most, outcome.length) if best == "list" else most]
        found = math.fsum(discounted(outcome.hits, gain, discount_by))
        ideal = math.fsum(discounted(ranked(order), gain, discount_by))
        if best == "ranks" and k is not None:
            ideal = math.fsum(discounted(ranked([1.0] * k), "linear", discount_by))
        if not order:
            value = 0.0
        else:
            value = (
                found / ideal if ideal else math.copysign(math.inf, found) if found else math.nan
            )
        if not digits:
            return value
        rounded = round(float(np.float32(0.0 if math.isnan(value) else value)), digits)
        return float(np.float32(rounded))

    return over_lists(events, k, per_list, empty=empty, **how)
