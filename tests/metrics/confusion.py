"""The items of a catalogue, one by one: shown or not, interacted with or not."""

from __future__ import annotations

from collections.abc import Collection

from tests.metrics.preparation import Id, Shown, good, ranked


def table(
    event: Shown, k: int | None, catalog: Collection[Id], unknown: str
) -> tuple[int, int, int, int]:
    """True and false positives, false and true negatives; the last below 0 where there is no room.

    Where unknown items count, they take the place of as many others of the catalogue.
    """
    shown, wanted = set(ranked(event, k)), good(event)
    items = set(catalog) if unknown == "ignore" else set(catalog) | shown | wanted
    cells = [(item in shown, item in wanted) for item in items]
    tp, fp, fn = (cells.count(cell) for cell in ((True, True), (True, False), (False, True)))
    return tp, fp, fn, len(catalog) - tp - fp - fn
