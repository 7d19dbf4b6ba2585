from streameval.metric import Catalog, metric
from streameval.statistics.exposures import Exposures


@metric(
    bounds=(0, float("inf")),
    per="slice",
    source="Ge, Delgado-Battenfeld, Jannach, Beyond accuracy, RecSys 2010",
)
def item_coverage(exposures: Exposures, k: int | None, catalog: Catalog) -> float:
    """Share of the catalogue that was shown up to rank k at least once, over all lists.

    With a catalogue given as a number the value passes 1 when that number is too small; given as
    ids, items outside it are left out. Without lists there is no value.

        item_coverage@k = |union over lists of the first k items| / |catalogue|

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("item_coverage@2", catalog=4)
        >>> accumulator.update(["a", "b", "c"], [])
        >>> accumulator.read("item_coverage@2").value
        0.5
    """
    if isinstance(catalog, int):
        return exposures.distinct(k) / catalog
    return exposures.distinct_among(catalog, k) / len(catalog)
