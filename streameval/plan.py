"""Which statistics the metrics asked for need."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from streameval.errors import CutoffExceedsDepthError, MetricError
from streameval.metric import Metric
from streameval.statistics.exposures import ExposuresOptions
from streameval.statistics.profiles import HitsOptions


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The statistics of one Accumulator.

    Attributes:
        depth: ranks kept; None keeps whole lists.
        hits: one Hits statistic each.
        exposures: the Exposures statistic, or None where no metric reads it.
        graded: metrics whose values on lists with gains are kept.
        values: metrics whose values on all lists are kept; one of each `Metric.per_list`.
    """

    depth: int | None
    hits: tuple[HitsOptions, ...]
    exposures: ExposuresOptions | None
    graded: tuple[Metric, ...]
    values: tuple[Metric, ...]


def planned(metrics: Sequence[Metric], depth: int | None, max_items: int) -> Plan:
    """The least that answers the metrics.

    Raises:
        MetricError: there is no metric.
        CutoffExceedsDepthError: a metric lies beyond a depth that was asked for.
    """
    if not metrics:
        raise MetricError("no metric was named; give at least one, for example 'ndcg@10'")
    if max_items < 1:
        raise MetricError(f"max_items={max_items}: at least one item must be kept")
    ranked = [metric for metric in metrics if metric.definition.reads != "exposures"]
    for metric in ranked:
        check_depth(metric, depth)
    if depth is None and all(metric.k is not None for metric in ranked):
        depth = max((metric.k for metric in ranked if metric.k is not None), default=None)
    return Plan(
        depth=depth,
        hits=tuple(dict.fromkeys(hits_options(metric, depth) for metric in ranked)),
        exposures=_exposures_options(metrics, max_items),
        graded=tuple(m for m in ranked if m.needs_gains and not m.needs_values),
        values=tuple({m.per_list: m for m in ranked if m.needs_values}.values()),
    )


def check_depth(metric: Metric, depth: int | None) -> None:
    """Refuse a cut-off beyond the ranks that are kept.

    Raises:
        CutoffExceedsDepthError: it is.
    """
    if depth is not None and (metric.k is None or metric.k > depth):
        raise CutoffExceedsDepthError(metric.text, metric.k, depth)


def hits_options(metric: Metric, depth: int | None) -> HitsOptions:
    """The Hits statistic that a metric reads."""
    known = {name: metric.values[name] for name in HitsOptions.__struct_fields__[1:]}
    after_cut = known["repeats"] == "compact_after_cut"
    rows = (known["rows"] or metric.k) if after_cut else None
    return msgspec.convert(known | {"rows": rows, "depth": depth}, HitsOptions)


def _exposures_options(metrics: Sequence[Metric], max_items: int) -> ExposuresOptions | None:
    cutoffs = {metric.k for metric in metrics if metric.definition.reads == "exposures"}
    if not cutoffs:
        return None
    return ExposuresOptions(
        cutoffs=tuple(sorted(k for k in cutoffs if k is not None)),
        whole=None in cutoffs,
        max_items=max_items,
    )
