"""Share of a user's kinds of items that a list covers."""

from typing import Annotated

from streameval.catalogue.items import Attribute
from streameval.catalogue.metric import metric
from streameval.catalogue.ranked_items import first_distinct_items
from streameval.catalogue.signature import By
from streameval.events import Event
from streameval.statistics.scores import relevant_items


@metric(
    bounds=(0, 1),
    source="Zhai, Cohen, Lafferty, Beyond independent relevance, SIGIR 2003; `ndeval` strec",
)
def subtopic_recall(
    event: Event, k: int | None, attribute: Annotated[Attribute, By("genre")]
) -> float | None:
    """Share of the kinds of the items interacted with that are among the hits up to rank k.

    A kind is a value of the attribute `by`, such as a genre. A list whose items interacted with
    have no kind is left out. Undefined without lists that have one.

        subtopic_recall@k = mean over lists of (kinds of hits at rank <= k
                            / kinds of items interacted with)

    Example:
        >>> from streameval import Accumulator
        >>> attributes = {"genre": {"a": ["drama", "news"], "b": "news", "c": "sport"}}
        >>> accumulator = Accumulator("subtopic_recall@2", attributes=attributes)
        >>> accumulator.update(["b", "a", "c"], ["b", "c"])
        >>> accumulator.read("subtopic_recall@2").value
        0.5
    """
    relevant = relevant_items(event.interactions)
    kinds = {kind for item in relevant for kind in attribute.of(item)}
    if not kinds:
        return None
    hits = relevant.intersection(first_distinct_items(event, k))
    return len({kind for item in hits for kind in attribute.of(item)}) / len(kinds)
