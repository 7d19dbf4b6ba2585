"""What was shown, item by item."""

from __future__ import annotations

from collections.abc import Iterable

from tests.metrics.preparation import Id, Shown


def items_shown(events: Iterable[Shown], k: int | None) -> list[Id]:
    """Every item at every rank up to k, of all lists."""
    shown = []
    for event in events:
        ranks = event.positions or range(1, len(event.recommendations) + 1)
        pairs = zip(ranks, event.recommendations, strict=True)
        shown += [item for rank, item in pairs if k is None or rank <= k]
    return shown
