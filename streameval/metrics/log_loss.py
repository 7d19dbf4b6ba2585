import math
from collections.abc import Iterator

from streameval.events import Event
from streameval.metric import metric
from streameval.statistics.samples import gains_of

_CLIP = 1e-15


@metric(
    bounds=(0, 35),
    per="item",
    higher_is_better=False,
    source="Good, Rational decisions, JRSS B 1952; RecBole 0.2.1 `log_loss`",
)
def log_loss(event: Event) -> Iterator[float]:
    """Mean negative log-likelihood of the outcomes, taking scores as probabilities.

    An item not interacted with is negative; scores are clipped to [1e-15, 1 - 1e-15]. Without
    scored items there is no value.

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
        yield -math.log(chance if gains.get(item, 0.0) > 0 else 1.0 - chance)
