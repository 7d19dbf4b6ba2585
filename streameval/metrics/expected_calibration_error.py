"""Expected calibration error of scores."""

import math
from itertools import pairwise
from typing import Annotated

import numpy as np

from streameval.catalogue.metric import metric
from streameval.catalogue.signature import Span
from streameval.statistics.scores import Scores


@metric(
    bounds=(0, 1),
    per="slice",
    higher_is_better=False,
    source="Naeini, Cooper, Hauskrecht, AAAI 2015; Guo et al., On calibration, ICML 2017",
)
def expected_calibration_error(
    scores: Scores, *, bins: Annotated[int, Span(1, 65_536)] = 10
) -> float:
    """Distance of scores, taken as probabilities, from the outcomes, in bins of equal width.

    All scored items of all lists are pooled; an item without interaction is negative; scores are
    clipped to [0, 1], and a bin holds its upper edge. Undefined without scored items.

        expected_calibration_error = sum over bins of |positives - sum of scores| / scored items

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("expected_calibration_error")
        >>> accumulator.update(["a", "b"], ["a"], scores=[0.75, 0.75])
        >>> accumulator.read("expected_calibration_error").value
        0.25
    """
    scored, positives, negatives = scores.columns()
    chances, items = scored.clip(0.0, 1.0), positives + negatives
    if not items.sum():
        return math.nan
    bin_of = np.maximum(np.ceil(chances * bins), 1.0).astype(np.int64)
    gaps = (positives - items * chances).tolist()
    edges = np.flatnonzero(np.diff(bin_of, prepend=0, append=0)).tolist()
    apart = (abs(math.fsum(gaps[a:b])) for a, b in pairwise(edges))
    return math.fsum(apart) / int(items.sum())
