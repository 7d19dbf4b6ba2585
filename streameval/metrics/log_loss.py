"""Log loss of scores."""

import math
from collections.abc import Iterator

from streameval.catalogue.metric import metric
from streameval.events import Event
from streameval.statistics.scores import gains_of

_CLIP = 1e-15


@metric(
    bounds=(-math.inf, math.inf),
    per="item",
    higher_is_better=False,
    source="Good, Rational decisions, JRSS B 1952; RecBole 0.2.1 `log_loss`",
)
def log_loss(event: Event) -> Iterator[float]:
    """Mean negative log-likelihood of the outcomes, taking scores as probabilities.

    An item interacted with is positive, any other negative. Scores are clipped to [1e-15, 1 -
    1e-15], so that the value is 0 to 35. Undefined without scored items.

        log_loss = sum over scored items of -ln(probability given to the outcome) / scored items

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("log_loss")
        >>> accumulator.update(["a", "b"], ["a"], scores=[0.5, 0.5])
        >>> round(accumulator.read("log_loss").value, 6)
        0.693147
    """
    gains = gains_of(event.interactions)
    for item, score in zip(event.recommendations, event.scores or (), strict=False):
        yield loss(score, float(gains.get(item, 0.0) > 0))


def loss(score: float, outcome: float) -> float:
    """Negative log-likelihood of an outcome, 1 or 0, by a score that is its probability."""
    chance = min(max(score, _CLIP), 1.0 - _CLIP)
    return -outcome * math.log(chance) - (1.0 - outcome) * math.log(1.0 - chance)
