"""Shannon entropy of exposures."""

import math
from typing import Literal

import numpy as np

from streameval.catalogue.metric import metric
from streameval.catalogue.reading import Bounded
from streameval.statistics.exposures import Exposures
from streameval.statistics.sample_bounds import logarithms


@metric(
    bounds=(0, math.inf),
    per="slice",
    source="Shannon, A mathematical theory of communication, 1948",
)
def shannon_entropy(
    exposures: Exposures, *, unit: Literal["bits", "nats"] = "bits"
) -> float | Bounded:
    """Entropy of what is shown up to rank k: how evenly exposures spread over items.

    Items that were never shown add nothing, so a catalogue is ignored. The largest value is
    log2(items shown). Undefined without items shown. Above `max_items` it is an estimate with
    bounds at 99.9 % confidence; they are wide if few items have most exposures.

        shannon_entropy@k = sum over items of -p * log2(p), p = exposures of the item / of all

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("shannon_entropy@2")
        >>> accumulator.update(["a", "b", "c"], [])
        >>> accumulator.read("shannon_entropy@2").value
        1.0
    """
    value, low, high = entropies(exposures, unit)
    return Bounded(min(max(value, low), high), low, high) if exposures.estimated else value


def entropies(exposures: Exposures, unit: Literal["bits", "nats"]) -> Bounded:
    """The entropy with its bounds, which an estimate may exceed."""
    counts = exposures.counts()
    total = sum(counts) + exposures.lost
    if not total:
        return Bounded(math.nan, math.nan, math.nan)
    logarithm = math.log2 if unit == "bits" else math.log
    if not exposures.estimated:
        parts = (n / total * (logarithm(total) - logarithm(n)) for n in counts)
        entropy = max(0.0, math.fsum(parts))
        return Bounded(entropy, entropy, entropy)
    sums = logarithms(np.array(counts), exposures.share, exposures.lost)
    expected = math.fsum(n * math.log(n) for n in counts) / exposures.share
    # The larger the sum, the smaller the entropy.
    estimates = (logarithm(total) - n * logarithm(math.e) / total for n in (expected, *sums[::-1]))
    return Bounded(*(max(0.0, entropy) for entropy in estimates))
