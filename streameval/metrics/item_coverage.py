import math
from typing import Literal

from streameval.context import Catalog
from streameval.errors import UndefinedMetricError
from streameval.metric import metric
from streameval.statistics.exposures import Exposures


@metric(
    bounds=(0, math.inf),
    per="slice",
    source="Ge, Delgado-Battenfeld, Jannach, Beyond accuracy, RecSys 2010",
)
def item_coverage(
    exposures: Exposures,
    k: int | None,
    catalog: Catalog,
    *,
    unknown: Literal["ignore", "count"] = "ignore",
    percent_digits: int = -1,
    no_lists: Literal["undefined", "zero"] = "undefined",
) -> float:
    """Share of the catalogue that was shown up to rank k at least once, over all lists.

    With a catalogue given as a number the value passes 1 when that number is too small; given as
    ids, items outside it are left out, or counted with unknown=count. With percent_digits from 0
    the value is in percent, rounded to so many decimals. Without lists there is no value
    (no_lists=zero makes it 0).

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
        raise UndefinedMetricError("item_coverage", "the catalogue is empty")
    if not exposures.lists and no_lists == "undefined":
        return math.nan
    if isinstance(catalog, int) or unknown == "count":
        share = exposures.distinct(k) / items
    else:
        share = exposures.distinct_among(catalog, k) / items
    return share if percent_digits < 0 else round(100.0 * share, percent_digits)
