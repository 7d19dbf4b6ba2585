"""Share of judged items."""

from typing import Literal

from streameval.catalogue.metric import metric
from streameval.catalogue.ranked_items import first_distinct_items
from streameval.events import Event
from streameval.statistics.scores import gains_of


@metric(
    bounds=(0, 1),
    higher_is_better=None,
    source="ir_measures 0.4.3 `Judged`; Sakai, Alternatives to bpref, SIGIR 2007",
)
def judged(event: Event, k: int | None, *, denominator: Literal["length", "k"] = "length") -> float:
    """Share of the first k items that have any interaction, of any gain.

    An item with gain 0 or below was judged and is not relevant; an item without a gain was not
    judged. It is over the items shown, min(k, length of the list); with denominator=k over k. An
    empty list counts as 0. Undefined without lists.

        judged@k = mean over lists of (items with an interaction of any gain at rank <= k
                   / items at rank <= k)

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("judged@10")
        >>> accumulator.update(["a", "b", "c", "d"], {"a": 1.0, "b": 0.0, "x": 1.0})
        >>> accumulator.read("judged@10").value
        0.5
    """
    items, gains = first_distinct_items(event, k), gains_of(event.interactions)
    size = k if k is not None and denominator == "k" else len(items)
    return sum(item in gains for item in items) / size if size else 0.0
