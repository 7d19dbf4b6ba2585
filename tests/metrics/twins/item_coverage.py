import math
from collections.abc import Collection, Sequence
from typing import Any

from tests.metrics.exposures import items_shown
from tests.metrics.preparation import Id, Shown
from tests.metrics.summaries import summary_of


def item_coverage(
    events: Sequence[Shown],
    k: int | None,
    *,
    catalog: int | Collection[Id],
    unknown: str = "ignore",
    percent_digits: int = -1,
    no_lists: str = "undefined",
    padding: int = 0,
    **how: Any,
) -> float:
    """Items shown over items there are; of a catalogue of ids, only its own items."""
    if not events and no_lists == "undefined":
        return math.nan
    shown = set(items_shown(events, k))
    if isinstance(catalog, int):
        share = len(shown) / (catalog + padding)
    else:
        known = shown if unknown == "count" else shown & set(catalog)
        share = len(known) / (len(set(catalog)) + padding)
    value = share if percent_digits < 0 else round(100 * share, percent_digits)
    return summary_of([value], **how)
