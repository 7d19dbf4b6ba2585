"""Root mean squared error of scores."""

import math
from collections.abc import Iterator

from streameval.catalogue.metric import metric
from streameval.events import Event
from streameval.statistics.scores import gains_of


@metric(
    bounds=(0, math.inf),
    per="item",
    higher_is_better=False,
    finish=math.sqrt,
    source="Herlocker et al., Evaluating collaborative filtering, TOIS 2004; RecBole 0.2.1 `rmse`",
)
def rmse(event: Event) -> Iterator[float]:
    """Root of the mean squared error of the scores of items that the user rated.

    A rating is the gain of an interaction; items without one are left out. Undefined without rated
    items.

        rmse = sqrt(sum over rated items of (score - rating)^2 / rated items)

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("rmse")
        >>> accumulator.update(["a", "b"], {"a": 4.0, "b": 1.0}, scores=[3.0, 0.0])
        >>> accumulator.read("rmse").value
        1.0
    """
    gains = gains_of(event.interactions)
    for item, score in zip(event.recommendations, event.scores or (), strict=False):
        if item in gains:
            error = float(score - gains[item])
            yield error * error
