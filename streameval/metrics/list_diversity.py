"""Diversity within a list."""

import math
from itertools import combinations
from typing import Annotated

from streameval.catalogue.items import Attribute, Similarity
from streameval.catalogue.metric import metric
from streameval.catalogue.signature import By
from streameval.events import Event


@metric(
    bounds=(0, 2),
    source="Ziegler et al., Topic diversification, WWW 2005; CAPRI (dbbb506) `listDiversity`",
    interactions=False,
)
def list_diversity(
    event: Event,
    k: int | None,
    similarity: Similarity | None,
    attribute: Annotated[Attribute | None, By("similarity")],
) -> float | None:
    """Difference between the first k items of a list: 1 minus the mean similarity of any two.

    Similarity is given once, as vectors or as a matrix. With by=genre it is the cosine of the
    genres of two items: the number of common ones, divided by the root of the product of their
    numbers. A list with fewer than two items, or with an unknown item, has no value and is left
    out. Undefined without lists that have a value.

        list_diversity@k = mean over lists of (1 - mean over pairs i before j of S(i, j))

    Example:
        >>> from streameval import Accumulator, Similarity
        >>> similarity = Similarity(["a", "b"], vectors=[[1.0, 0.0], [0.0, 1.0]])
        >>> accumulator = Accumulator("list_diversity@2", similarity=similarity)
        >>> accumulator.update(["a", "b"], [])
        >>> accumulator.read("list_diversity@2").value
        1.0
    """
    items = event.recommendations[:k]
    if len(items) < 2:
        return math.nan
    if attribute is not None:
        return _unlike_kinds([frozenset(attribute.of(item)) for item in items])
    if similarity is None or not all(map(similarity.knows, items)):
        return math.nan
    pairs = [similarity.between(first, second) for first, second in combinations(items, 2)]
    return 1.0 - math.fsum(pairs) / len(pairs)


def _unlike_kinds(kinds: list[frozenset[str]]) -> float:
    if not all(kinds):
        return math.nan
    pairs = [
        len(first & second) / math.sqrt(len(first) * len(second))
        for first, second in combinations(kinds, 2)
    ]
    return 1.0 - math.fsum(pairs) / len(pairs)
