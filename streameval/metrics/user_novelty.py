"""Share of items new to the user."""

from streameval.catalogue.metric import metric
from streameval.catalogue.ranked_items import first_distinct_items
from streameval.events import Event


@metric(
    bounds=(0, 1),
    source="Lathia, Hailes, Capra, Amatriain, Temporal diversity, SIGIR 2010 (`novelty`)",
    interactions=False,
)
def user_novelty(event: Event, k: int | None) -> float | None:
    """Share of the first k items that are new to the user: not in the user's history.

    Each event has a history, the items that the user knew before; events without one are left out,
    and a new user has an empty one. Repeats and empty lists are left out. Undefined without events
    that have a history and items. Records have it in the field that `history` in `[event]` names.

        user_novelty@k = mean over lists of (items at rank <= k that are not in the history / items)

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("user_novelty@2")
        >>> accumulator.update(["a", "b", "c"], [], history=["b", "z"])
        >>> accumulator.read("user_novelty@2").value
        0.5
    """
    if event.history is None:
        return None
    items = first_distinct_items(event, k)
    return len(set(items).difference(event.history)) / len(items) if items else None
