"""Binary preference."""

import sys
from typing import Annotated, Literal

from streameval.catalogue.metric import metric
from streameval.catalogue.ranked_items import first_distinct_items
from streameval.catalogue.signature import Span
from streameval.events import Event
from streameval.statistics.scores import gains_of


@metric(
    bounds=(0, 1),
    source="Buckley and Voorhees, Retrieval evaluation with incomplete information, SIGIR 2004; "
    "trec_eval `bpref`",
)
def bpref(
    event: Event,
    k: int | None,
    *,
    min_gain: Annotated[float, Span(0, sys.float_info.max)] = 0.0,
    empty: Literal["skip", "zero"] = "skip",
) -> float | None:
    """Share of the pairs of a relevant and a judged irrelevant item that are in the right order.

    An item with gain 0 (or below min_gain) is judged and not relevant; one without a gain, or with
    one below 0, is not judged and is ignored. Without judged irrelevant items it is the recall. A
    list without relevant items is left out (empty=zero counts it as 0). Undefined without lists
    that have relevant items.

        bpref@k = mean over lists of (sum over hits of (1 - min(R, judged not relevant above)
                  / min(R, judged not relevant)) / R), R = relevant items

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("bpref")
        >>> accumulator.update(["a", "b", "c", "d"], {"a": 0, "b": 1, "d": 1, "x": 0})
        >>> accumulator.read("bpref").value
        0.5
    """
    relevant = {
        item: gain > 0 and gain >= min_gain
        for item, gain in gains_of(event.interactions).items()
        if gain >= 0
    }
    relevant_items = sum(relevant.values())
    if not relevant_items:
        return 0.0 if empty == "zero" else None
    above, least = 0, min(relevant_items, len(relevant) - relevant_items)
    preferred = 0.0
    for item in first_distinct_items(event, k):
        if relevant.get(item):
            preferred += 1.0 - min(relevant_items, above) / least if above else 1.0
        elif item in relevant:
            above += 1
    return preferred / relevant_items
