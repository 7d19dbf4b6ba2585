import math
from collections.abc import Collection, Sequence

from tests.metrics.preparation import Id, Shown


def item_coverage(
    events: Sequence[Shown], k: int | None, *, catalog: int | Collection[Id]
) -> float:
    """Items shown over items there are; of a catalogue of ids, only its own items."""
    if not events:
        return math.nan
    shown = []
    for event in events:
        ranks = event.positions or range(1, len(event.recommendations) + 1)
        pairs = zip(ranks, event.recommendations, strict=True)
        shown += [item for rank, item in pairs if k is None or rank <= k]
    if isinstance(catalog, int):
        return len(set(shown)) / catalog
    return len(set(shown) & set(catalog)) / len(set(catalog))
