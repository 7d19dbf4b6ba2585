"""Unexpectedness against a baseline."""

from typing import Literal

from streameval.catalogue.metric import metric
from streameval.catalogue.rows import Repeats, rows_of
from streameval.events import Event


@metric(
    bounds=(0, 1),
    source="RePlay 0.10.0 `Unexpectedness`; Adamopoulos and Tuzhilin, TIST 2014",
    interactions=False,
)
def unexpectedness(
    event: Event,
    k: int | None,
    *,
    repeats: Repeats = "every",
    rows: int = 0,
    missing: Literal["skip", "zero"] = "skip",
) -> float | None:
    """Share of the first k items that a baseline would not have shown among its first k.

    The baseline is given with each event; events without one are left out (missing=zero counts
    them, and empty ones, as 0). An empty list counts as 0; shorter lists are also divided by k.
    Undefined without events that have a baseline.

        unexpectedness@k = mean over lists of (1 - |first k items and first k of baseline| / k)

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("unexpectedness@2")
        >>> accumulator.update(["a", "b"], [], baseline=["b", "c"])
        >>> accumulator.read("unexpectedness@2").value
        0.5
    """
    if not event.baseline and missing == "zero":
        return 0.0
    if event.baseline is None:
        return None
    shown = rows_of(event.recommendations, k, repeats, rows)
    # RePlay removes repeats from the whole baseline, whatever the rows.
    closed = "every" if repeats == "every" else "compact_before_cut"
    expected = rows_of(event.baseline, k, closed, rows)
    if not shown:
        return 0.0
    return 1.0 - len(set(shown).intersection(expected)) / (k or len(shown))
