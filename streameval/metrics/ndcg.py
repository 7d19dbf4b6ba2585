import numpy as np

from streameval.cumulative_gain import Gain, discount, ideal, worth
from streameval.metric import metric
from streameval.statistics.hitcells import HitsView, Total
from streameval.statistics.lists import GradedLists


def _graded(lists: GradedLists, k: int | None, *, gain: Gain = "linear") -> Total:
    cells, best = lists.by_interacted(k), lists.best(k)
    found = cells.total(worth(cells.gain, gain) * discount(cells.rank))
    return found / best.total(worth(best.gain, gain) * discount(best.rank))


@metric(
    bounds=(0, 1),
    empty="skip",
    graded=_graded,
    source="Jaervelin and Kekaelaeinen, Cumulated gain-based evaluation, TOIS 2002",
)
def ndcg(hits: HitsView, k: int | None) -> Total:
    """Normalised DCG: the gain of the first k items against the best order's.

    An id without a gain is worth 1; a gain g is worth g, with gain=exp2 2^g - 1, with gain=binary
    1. The best order's first min(k, items interacted with) items count, whatever the list's
    length. A list without interactions is left out (empty=zero counts it as 0). Without lists that
    have interactions there is no value.

        ndcg@k = mean over lists of (dcg@k / dcg@k of the best order)

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("ndcg@3")
        >>> accumulator.update(["a", "b", "c"], ["c"])
        >>> accumulator.read("ndcg@3").value
        0.5
    """
    cells = hits.by_interacted(k)
    possible = cells.size if k is None else np.minimum(cells.size, k)
    return cells.total(cells.hits * discount(cells.rank) / ideal(possible))
