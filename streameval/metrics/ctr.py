"""Click-through rate."""

from typing import Annotated

from streameval.catalogue.metric import metric
from streameval.catalogue.signature import Span
from streameval.events import LARGEST_RANK
from streameval.statistics.hitrows import HitsView, Total


@metric(
    bounds=(0, 1), per="item", source="Richardson, Dominowska, Ragno, Predicting clicks, WWW 2007"
)
def ctr(hits: HitsView, k: int | None, *, rank: Annotated[int, Span(0, LARGEST_RANK)] = 0) -> Total:
    """Click-through rate: distinct items interacted with, of the items shown up to rank k.

    Unlike hit_rate it is per item shown, not per list: a list of 20 items with one click adds 1 to
    the numerator and 20 to the denominator. With rank above 0 only that rank counts: clicks on it
    over items shown at it. Undefined without items shown.

        ctr@k = hits at rank <= k / items shown at rank <= k

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("ctr")
        >>> accumulator.update(["a", "b", "c", "d"], ["b"])
        >>> accumulator.read("ctr").value
        0.25
    """
    rows = hits.by_length(k)
    return rows.total(rows.hits * ((rows.rank == rank) | (rank == 0)))
