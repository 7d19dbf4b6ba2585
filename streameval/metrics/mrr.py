"""Mean reciprocal rank."""

from streameval.catalogue.metric import metric
from streameval.statistics.hitrows import HitsView, Total


@metric(bounds=(0, 1), source="Voorhees, TREC-8 question answering track, 1999")
def mrr(hits: HitsView, k: int | None) -> Total:
    """Mean reciprocal rank of the first item the user interacted with, up to rank k.

    A list without a hit, or without interactions, counts as 0. Undefined without lists.

        mrr@k = sum over lists of (1 / rank of the first hit, if <= k) / lists

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("mrr")
        >>> accumulator.update(["a", "b", "c"], ["b", "c"])
        >>> accumulator.read("mrr").value
        0.5
    """
    first = hits.first(k)
    return first.total(first.hits / first.rank)
