"""Item coverage."""

import math
from typing import Annotated, Literal

from streameval.catalogue.context import Catalog
from streameval.catalogue.metric import metric
from streameval.catalogue.reading import Bounded
from streameval.catalogue.signature import Span
from streameval.events import LARGEST_RANK
from streameval.events.errors import UndefinedMetricError
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
    percent_digits: int = -1,
    no_lists: Literal["undefined", "zero"] = "undefined",
    padding: Annotated[int, Span(0, LARGEST_RANK)] = 0,
) -> Bounded:
    """Share of the catalogue that was shown up to rank k at least once, over all lists.

    If the catalogue is a number that is too small, the value exceeds 1; if it is ids, other items
    are left out, or counted with unknown=count. With percent_digits from 0 the value is in percent,
    rounded to that many decimals. Padding adds that many items to the catalogue. Undefined without
    lists (no_lists=zero makes it 0). Above `max_items` it is an estimate with bounds at 99.9 %
    confidence.

        item_coverage@k = |union over lists of the first k items| / |catalogue|

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("item_coverage@2", catalog=4)
        >>> accumulator.update(["a", "b", "c"], [])
        >>> accumulator.read("item_coverage@2").value
        0.5
    """
    items = catalog if isinstance(catalog, int) else len(catalog)
    items += padding
    if not items:
        raise UndefinedMetricError("item_coverage", "the catalogue is empty")
    if not exposures.lists and no_lists == "undefined":
        return Bounded(math.nan, math.nan, math.nan)
    among = None if isinstance(catalog, int) or unknown == "count" else catalog
    distinct = exposures.distinct if among is None else exposures.distinct_among(among)
    shares = (count / items for count in (distinct, *exposures.bounds(among)))
    if percent_digits < 0:
        return Bounded(*shares)
    return Bounded(*(round(100.0 * share, percent_digits) for share in shares))
