"""Hit rate."""

from streameval.catalogue.metric import metric
from streameval.statistics.hitrows import HitsView, Total


@metric(bounds=(0, 1), source="RecBole 0.2.1 `hit`; RePlay 0.10.0 `HitRate`")
def hit_rate(hits: HitsView, k: int | None) -> Total:
    """Share of the lists that hold at least one item the user interacted with, up to rank k.

    A list without interactions counts as 0. Undefined without lists.

        hit_rate@k = lists with a hit at rank <= k / lists

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("hit_rate@2")
        >>> accumulator.update(["a", "b", "c"], ["b"])
        >>> accumulator.update(["a", "b", "c"], ["c"])
        >>> accumulator.read("hit_rate@2").value
        0.5
    """
    first = hits.first(k)
    return first.total(first.hits / first.size)
