"""Value per list."""

from streameval.catalogue.cumulative_gain import ValueCap, cap_values, gain_value
from streameval.catalogue.metric import metric
from streameval.statistics.hitrows import HitsView, Total


@metric(
    bounds=(float("-inf"), float("inf")),
    graded=True,
    listwise={"cap": ()},
    source="Cumulated gain without a discount: Jaervelin and Kekaelaeinen, TOIS 2002",
)
def value_per_list(hits: HitsView, k: int | None, *, cap: ValueCap = 0.0) -> Total:
    """Sum of the gains of the items shown up to rank k: revenue per list if gains are prices.

    Gains below 0, such as refunds, are subtracted; relevant=positive leaves them out. An id without
    a gain is worth 1. With type= only interactions of that type count. A list without interactions
    counts as 0. Undefined without lists. With a cap, a list with more counts as the cap, so that
    one large order does not decide a comparison; choose it before the experiment. Comparisons and
    plans of files take a percentile, cap=p99.5: of the values other than 0 over all lists of all
    variants, one cap for all.

        value_per_list@k = sum over lists of min(gains of the items at rank <= k, cap) / lists

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("value_per_list@2", "value_per_list(cap=8)@2")
        >>> accumulator.update(["a", "b", "c"], {"a": 9.5, "b": 0.5, "c": 7.0})
        >>> accumulator.read("value_per_list@2").value
        10.0
        >>> accumulator.read("value_per_list(cap=8)@2").value
        8.0
        >>> accumulator.update(["a", "b", "c"], {"a": -9.5})
        >>> accumulator.read("value_per_list@2").value
        0.25
    """
    rows = hits.by_interacted(k)
    return cap_values(rows.total(rows.hits * gain_value(rows.gain, "linear")), cap)
