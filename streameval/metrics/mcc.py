"""Matthews correlation coefficient."""

import math
from typing import Literal

from streameval.catalogue.context import Catalog
from streameval.catalogue.metric import metric
from streameval.catalogue.ranked_items import confusion
from streameval.events import Event


@metric(
    bounds=(-1, 1), source="Matthews, Biochimica et Biophysica Acta 1975; RecTools 0.19.0 `MCC`"
)
def mcc(
    event: Event,
    k: int | None,
    catalog: Catalog,
    *,
    unknown: Literal["ignore", "count"] = "ignore",
    empty: Literal["skip", "zero"] = "skip",
) -> float | None:
    """Matthews correlation between the items shown and the items interacted with.

    It is over the items of the catalogue; items outside a catalogue of ids are left out, or counted
    with unknown=count. It is 0 if all items, or none, are shown or interacted with. A list without
    interactions is left out (empty=zero counts it as 0), and so is a list with more items than the
    catalogue. Undefined without other lists.

        mcc@k = mean over lists of ((tp * tn - fp * fn)
                / sqrt((tp + fp) (tp + fn) (tn + fp) (tn + fn)))

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("mcc@1", catalog=4)
        >>> accumulator.update(["a", "b"], ["a"])
        >>> accumulator.update(["a", "b"], ["b"])
        >>> round(accumulator.read("mcc@1").value, 12)
        0.333333333333
    """
    tp, fp, fn, tn = confusion(event, k, catalog, unknown)
    if tn < 0:
        return None
    if not tp + fn:
        return 0.0 if empty == "zero" else None
    return correlation(tp, fp, fn, tn)


def correlation(tp: int, fp: int, fn: int, tn: int) -> float | None:
    """The correlation of a confusion matrix; None if the catalogue is too small for it."""
    product = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    if product < 0 or tn + fp < 0:
        return None
    return (tp * tn - fp * fn) / math.sqrt(product) if product > 0 else 0.0
