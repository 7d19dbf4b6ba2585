"""Gini coefficient of exposures."""

import math
from itertools import count
from operator import mul
from typing import Literal

import numpy as np

from streameval.catalogue.context import Catalog
from streameval.catalogue.metric import metric
from streameval.catalogue.reading import Bounded
from streameval.statistics.exposures import Exposures
from streameval.statistics.sample_bounds import evenness


@metric(
    bounds=(0, 1),
    per="slice",
    higher_is_better=False,
    source="Gini 1912; Fleder and Hosanagar, Blockbuster culture's next rise or fall, 2009",
)
def gini(
    exposures: Exposures,
    catalog: Catalog | None,
    *,
    over: Literal["shown", "catalog"] = "shown",
    unknown: Literal["ignore", "count"] = "ignore",
) -> float | Bounded:
    """Gini coefficient of how often each item was shown up to rank k: 0 if all are equal.

    It is over the items shown at least once; with over=catalog over the catalogue, including items
    never shown (items outside a catalogue of ids are left out, or counted with unknown=count).
    Undefined without items shown. Above `max_items` it is an estimate with bounds at 99.9 %
    confidence; they are wide if few items have most exposures.

        gini@k = sum over n items, by exposures ascending, of (2 i - n - 1) * exposures / (n * all)

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("gini@2", "gini(over=catalog)@2", catalog=4)
        >>> accumulator.update(["a", "b"], [])
        >>> [reading.value for reading in accumulator.compute().values()]
        [0.0, 0.5]
    """
    is_restricted = over == "catalog" and unknown == "ignore"
    among = catalog if is_restricted and isinstance(catalog, frozenset) else None
    counts = exposures.counts(among)
    counted, catalogued = len(counts), 0
    if over == "catalog" and catalog is not None:
        catalogued = catalog if isinstance(catalog, int) else len(catalog)
    items = max(counted, round(catalogued * exposures.share))
    total = sum(counts)
    if not total:
        return math.nan
    first = items - counted
    spread: int = 2 * sum(map(mul, counts, count(1))) + (2 * first - items - 1) * total
    value = spread / (items * total)
    if not exposures.estimated:
        return value
    least = exposures.lost if among is None else 0
    low, high = evenness(np.array(counts), exposures.share, least, exposures.lost)
    fewest, most = (max(catalogued, bound) for bound in exposures.bounded(among)[1:])
    low, high = max(0.0, 1.0 - high / fewest), 1.0 - low / most
    return Bounded(min(max(value, low), high), low, high)
