"""NDCG that values new kinds of items."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush, heapreplace
from typing import Annotated

from streameval.catalogue.items import Attribute
from streameval.catalogue.metric import metric
from streameval.catalogue.ranked_items import ranked_items
from streameval.catalogue.signature import By, Span
from streameval.events import Event, Id
from streameval.statistics.scores import relevant_items


@metric(
    bounds=(0, 2),
    source="Clarke et al., Novelty and diversity in information retrieval evaluation, SIGIR 2008; "
    "TREC `ndeval`",
)
def alpha_ndcg(
    event: Event,
    k: int | None,
    attribute: Annotated[Attribute, By("genre")],
    *,
    alpha: Annotated[float, Span(0, 1)] = 0.5,
) -> float | None:
    """NDCG in which a hit is worth less, the more hits above it have the same kinds.

    A kind is a value of the attribute `by`, such as a genre. For each of its kinds, a hit is worth
    (1 - alpha)^n, where n is the number of hits of that kind above it. The sum is divided by that
    of a greedy order, which takes the most valuable item interacted with at each rank (of equal
    ones, the largest id). That order is not always the best, so a list can exceed 1. A list whose
    items interacted with have no kind is left out. Undefined without lists that have one.

        alpha_ndcg@k = mean over lists of (sum over hits at rank <= k of worth / log2(rank + 1)
                       / the same sum of the greedy order)

    Example:
        >>> from streameval import Accumulator
        >>> attributes = {"genre": {"a": "drama", "b": "news", "c": "news"}}
        >>> accumulator = Accumulator("alpha_ndcg@2", attributes=attributes)
        >>> accumulator.update(["b", "c", "a"], ["a", "b", "c"])
        >>> round(accumulator.read("alpha_ndcg@2").value, 4)
        0.8066
    """
    relevant = relevant_items(event.interactions)
    kinds = {item: attribute.of(item) for item in relevant if attribute.of(item)}
    if not kinds:
        return None
    remaining = _RemainingGains(kinds, alpha)
    ranks = {item: rank for rank, item in reversed(ranked_items(event, k)) if item in kinds}
    gains = [(rank, remaining.take(item)) for item, rank in reversed(ranks.items())]
    return _discounted_sum(gains) / _discounted_sum(enumerate(_greedy(kinds, k, alpha), start=1))


class _RemainingGains:
    """Gains of the remaining items, after some were taken."""

    def __init__(self, kinds: dict[Id, tuple[str, ...]], alpha: float) -> None:
        self._kinds, self._alpha = kinds, alpha
        self._taken: Counter[str] = Counter()

    def of(self, item: Id) -> float:
        """The gain of an item."""
        return math.fsum((1.0 - self._alpha) ** self._taken[kind] for kind in self._kinds[item])

    def take(self, item: Id) -> float:
        """Take an item, and return its gain."""
        gain = self.of(item)
        self._taken.update(self._kinds[item])
        return gain


def _greedy(kinds: dict[Id, tuple[str, ...]], k: int | None, alpha: float) -> Iterator[float]:
    """The gains of the items in the greedy order, up to rank k."""
    remaining, order = (
        _RemainingGains(kinds, alpha),
        {item: -n for n, item in enumerate(sorted(kinds))},
    )
    # Items of the same kinds have the same gain: of each group only the largest id can be next.
    groups = defaultdict[tuple[str, ...], list[Id]](list)
    for item in order:
        groups[tuple(sorted(kinds[item]))].append(item)

    def entry(items: list[Id]) -> tuple[float, int, list[Id]]:
        return -remaining.of(items[-1]), order[items[-1]], items

    queue = [entry(items) for items in groups.values()]
    heapify(queue)
    for _ in range(len(kinds) if k is None else min(k, len(kinds))):
        # No gain grows, so that the first is best as soon as it is up to date.
        while (first := entry(queue[0][2]))[0] != queue[0][0]:
            heapreplace(queue, first)
        yield remaining.take(first[2].pop())
        heappop(queue)
        if first[2]:
            heappush(queue, entry(first[2]))


def _discounted_sum(gains: Iterable[tuple[int, float]]) -> float:
    return math.fsum(gain / math.log2(rank + 1) for rank, gain in gains)
