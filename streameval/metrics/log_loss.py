"""Log loss of scores."""

import math
from collections.abc import Iterator
from typing import Literal

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
def log_loss(event: Event, *, outcome: Literal["relevant", "gain"] = "relevant") -> Iterator[float]:
    """Mean negative log-likelihood of the outcomes, taking scores as probabilities.

    An item interacted with is positive, any other negative. With outcome=gain the outcome is the
    unchanged gain: for gains outside 0 to 1 the value can be negative, otherwise it is 0 to 35.
    Scores are clipped to [1e-15, 1 - 1e-15]. Undefined without scored items.

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
        chance = min(max(score, _CLIP), 1.0 - _CLIP)
        gain = gains.get(item, 0.0)
        positive = gain if outcome == "gain" else float(gain > 0)
        yield -positive * math.log(chance) - (1.0 - positive) * math.log(1.0 - chance)
