"""Fallout."""

from typing import Literal

from streameval.catalogue.context import Catalog
from streameval.catalogue.metric import metric
from streameval.catalogue.ranked_items import confusion
from streameval.events import Event


@metric(
    bounds=(0, 1),
    higher_is_better=False,
    source="Swets, Information retrieval systems, Science 1963; van Rijsbergen, Information "
    "retrieval, 1979, chapter 7",
)
def fallout(
    event: Event, k: int | None, catalog: Catalog, *, unknown: Literal["ignore", "count"] = "ignore"
) -> float | None:
    """Share of the items without interaction that are among the first k.

    It is the false positive rate of a list. Items outside a catalogue of ids are left out, or
    counted with unknown=count. A list whose user interacted with the whole catalogue is left out,
    and so is a list with more items than the catalogue. Undefined without other lists.

        fallout@k = mean over lists of (items without interaction at rank <= k
                    / items of the catalogue without interaction)

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("fallout@2", catalog=5)
        >>> accumulator.update(["a", "b", "c"], ["b"])
        >>> accumulator.read("fallout@2").value
        0.25
    """
    _, false_positives, _, neither = confusion(event, k, catalog, unknown)
    if neither < 0 or not false_positives + neither:
        return None
    return false_positives / (false_positives + neither)
