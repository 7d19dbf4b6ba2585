"""Mean absolute error of scores."""

from collections.abc import Iterator

from streameval.catalogue.metric import metric
from streameval.events import Event
from streameval.statistics.scores import gains_of


@metric(
    bounds=(0, float("inf")),
    per="item",
    higher_is_better=False,
    source="Willmott and Matsuura, Climate Research 2005; RecBole 0.2.1 `mae`",
)
def mae(event: Event) -> Iterator[float]:
    """Mean absolute error of the scores of items that the user rated.

    A rating is the gain of an interaction; items without one are left out. Undefined without rated
    items.

        mae = sum over rated items of |score - rating| / rated items

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("mae")
        >>> accumulator.update(["a", "b"], {"a": 4.0}, scores=[3.5, 1.0])
        >>> accumulator.read("mae").value
        0.5
    """
    gains = gains_of(event.interactions)
    for item, score in zip(event.recommendations, event.scores or (), strict=False):
        if item in gains:
            yield abs(score - gains[item])
