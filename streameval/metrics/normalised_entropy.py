"""Normalised entropy of scores."""

import math

from streameval.catalogue.metric import metric
from streameval.statistics.scores import Scores

_CLIP = 1e-15


@metric(
    bounds=(0, math.inf),
    per="slice",
    higher_is_better=False,
    source="He et al., Practical lessons from predicting clicks on ads at Facebook, ADKDD 2014",
)
def normalised_entropy(scores: Scores) -> float:
    """Log loss of the scores divided by that of the mean rate; below 1 the scores are informative.

    All scored items of all lists are pooled; an item without interaction is negative; scores are
    clipped to [1e-15, 1 - 1e-15]. Undefined without a positive or a negative item.

        normalised_entropy = log_loss / (-p ln(p) - (1 - p) ln(1 - p)), p = share of positives

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("normalised_entropy")
        >>> accumulator.update(["a", "b"], ["a"], scores=[0.5, 0.5])
        >>> accumulator.read("normalised_entropy").value
        1.0
    """
    scored, positives, negatives = scores.columns()
    hits, others = int(positives.sum()), int(negatives.sum())
    if not hits or not others:
        return math.nan
    chances = scored.clip(_CLIP, 1.0 - _CLIP).tolist()
    lost = [
        -yes * math.log(chance) - no * math.log(1.0 - chance)
        for chance, yes, no in zip(chances, positives.tolist(), negatives.tolist(), strict=True)
    ]
    share = hits / (hits + others)
    guess = -hits * math.log(share) - others * math.log(others / (hits + others))
    return math.fsum(lost) / guess
