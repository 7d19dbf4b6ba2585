"""Item coverage."""

import math
from typing import Literal

from streameval.catalogue.context import Catalog
from streameval.catalogue.metric import metric
from streameval.catalogue.reading import Bounded, undefined
from streameval.statistics.exposures import Exposures


@metric(
    bounds=(0, math.inf),
    per="slice",
    source="Ge, Delgado-Battenfeld, Jannach, Beyond accuracy, RecSys 2010",
)
def item_coverage(
    exposures: Exposures,
    catalog: Catalog,
    *,
    unknown: Literal["ignore", "count"] = "ignore",
) -> Bounded:
    """Share of the catalogue that was shown up to rank k at least once, over all lists.

    If the catalogue is a number that is too small, the value exceeds 1; if it is ids, other items
    are left out, or counted with unknown=count. Undefined without lists. Above `max_items` it is an
    estimate with bounds at 99.9 % confidence.

        item_coverage@k = |union over lists of the first k items| / |catalogue|

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("item_coverage@2", catalog=4)
        >>> accumulator.update(["a", "b", "c"], [])
        >>> accumulator.read("item_coverage@2").value
        0.5
    """
    items = catalog if isinstance(catalog, int) else len(catalog)
    if not items:
        raise undefined("item_coverage", "the catalogue is empty")
    among = None if isinstance(catalog, int) or unknown == "count" else catalog
    return Bounded(*(distinct / items for distinct in exposures.bounded(among)))
