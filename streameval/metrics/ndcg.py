"""Normalised discounted cumulative gain."""

from typing import Annotated, Literal

import numpy as np
from msgspec.structs import replace

from streameval.catalogue.cumulative_gain import (
    Discount,
    Gain,
    discount,
    gain_value,
    ideal,
    single_dcg,
)
from streameval.catalogue.metric import metric
from streameval.catalogue.signature import Span
from streameval.statistics.hitrows import HitsView, Total
from streameval.statistics.lists import Lists

Best = Literal["cut", "list", "whole", "ranks"]


def _graded_ndcg(
    lists: Lists,
    k: int | None,
    *,
    gain: Gain = "linear",
    discount_by: Discount = "log2",
    best: Best = "cut",
    digits: Annotated[int, Span(0, 6)] = 0,
    worthless: Literal["skip", "zero"] = "skip",
) -> Total:
    rows, order = lists.by_interacted(k), lists.best(None if best == "whole" else k)
    room = np.ones_like(order.gain)
    if best == "list":
        room = (order.rank <= lists.length[order.owner]).astype(np.float64)
    every_rank = k if best == "ranks" else None
    if not digits:
        gained = rows.total(gain_value(rows.gain, gain) * discount(rows.rank, discount_by))
        best_gains = room * gain_value(order.gain, gain)
        possible = order.total(best_gains * discount(order.rank, discount_by))
        if every_rank is not None:
            possible = ideal(np.full(len(lists), every_rank), discount_by)
        with np.errstate(divide="ignore", invalid="ignore"):
            values = np.where(order.total(room) > 0, gained / possible, 0.0)
        return np.where(np.isnan(values), 0.0, values) if worthless == "zero" else values
    order = replace(order, gain=order.gain * room)
    with np.errstate(over="ignore"):
        rows = replace(rows, gain=rows.gain.astype(np.float32))
    length = lists.length if k is None else np.minimum(lists.length, k)
    reached = single_dcg(rows, length, gain, discount_by)
    possible = single_dcg(order, np.zeros_like(length), gain, discount_by)
    if every_rank is not None:
        possible = ideal(np.full(len(lists), every_rank), discount_by).astype(np.float32)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = np.where(reached == 0, np.float32(0), reached / possible)
    return np.round(values, digits).astype(np.float64)


@metric(
    bounds=(0, 1),
    empty="skip",
    listwise={"digits": ()},
    graded=_graded_ndcg,
    source="Jaervelin and Kekaelaeinen, Cumulated gain-based evaluation, TOIS 2002",
)
def ndcg(
    hits: HitsView, k: int | None, *, discount_by: Discount = "log2", best: Best = "cut"
) -> Total:
    """Normalised DCG: the DCG of the first k items divided by that of the best order.

    Gains and discounts are those of dcg. The best order has min(k, items interacted with) items,
    with best=list at most the length of the list, with best=whole all of them; with best=ranks it
    has a gain of 1 at every rank up to k. With digits above 0 each list's value is computed in
    32-bit floats and rounded to that many decimals. A list without interactions is left out
    (empty=zero counts it as 0), and so is one whose gains and best DCG are 0, with relevant=all
    (worthless=zero counts it as 0). Undefined without lists that have interactions.

        ndcg@k = mean over lists of (dcg@k / dcg@k of the best order)

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("ndcg@3")
        >>> accumulator.update(["a", "b", "c"], ["c"])
        >>> accumulator.read("ndcg@3").value
        0.5
    """
    rows = hits.by_ideal(k) if best == "list" else hits.by_interacted(k)
    possible = rows.size if k is None or best == "whole" else np.minimum(rows.size, k)
    if best == "ranks" and k is not None:
        possible = np.full_like(rows.size, k)
    return rows.total(rows.hits * discount(rows.rank, discount_by) / ideal(possible, discount_by))
