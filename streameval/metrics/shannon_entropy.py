import math
from typing import Literal

from streameval.metric import metric
from streameval.statistics.exposures import Exposures


@metric(
    bounds=(0, math.inf),
    per="slice",
    source="Shannon, A mathematical theory of communication, 1948",
)
def shannon_entropy(
    exposures: Exposures,
    *,
    unit: Literal["bits", "nats"] = "bits",
    divisor: Literal["one", "items"] = "one",
) -> float:
    """Entropy of what is shown up to rank k: how evenly exposures spread over items.

    Items that were never shown add nothing, so a catalogue plays no part. The largest value is
    log2(items shown). With divisor=items it is divided by the distinct items shown. Without items
    shown there is no value. Above `max_items` it is an estimate without bounds: where few items
    take most of what is shown, it depends on whether they are among the items kept.

        shannon_entropy@k = sum over items of -p * log2(p), p = exposures of the item / of all

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("shannon_entropy@2")
        >>> accumulator.update(["a", "b", "c"], [])
        >>> accumulator.read("shannon_entropy@2").value
        1.0
    """
    counts = exposures.counts()
    total = sum(counts) / exposures.share
    if not total:
        return math.nan
    logarithm = math.log2 if unit == "bits" else math.log
    parts = (n / total * (logarithm(total) - logarithm(n)) for n in counts)
    entropy = max(0.0, math.fsum(parts) / exposures.share)
    return entropy if divisor == "one" else entropy / (len(counts) / exposures.share)
