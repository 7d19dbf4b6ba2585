"""Which statistics the metrics asked for need."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from streameval.errors import CutoffExceedsDepthError, MetricError
from streameval.metric import Metric
from streameval.statistics.exposures import ExposuresOptions
from streameval.statistics.hits import HitsOptions


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The statistics of one Accumulator.

    Attributes:
        depth: ranks kept; None keeps whole lists.
        hits: one Hits statistic each.
        exposures: the Exposures statistic, or None where no metric reads it.
        graded: metrics whose values on lists with gains are kept, list by list.
    """

    depth: int | None
    hits: tuple[HitsOptions, ...]
    exposures: ExposuresOptions | None
    graded: tuple[Metric, ...]


def planned(metrics: Sequence[Metric], depth: int | None, max_items: int) -> Plan:
    """The least that answers the metrics, whatever their order.

    Raises:
        MetricError: there is no metric.
        CutoffExceedsDepthError: a metric lies beyond a depth that was asked for.
    """
    if not metrics:
        raise MetricError("no metric was named; give at least one, for example 'ndcg@10'")
    if max_items < 1:
        raise MetricError(f"max_items={max_items}: at least one item must be kept")
    ranked = [metric for metric in metrics if metric.definition.reads == "hits"]
    for metric in ranked:
        check_depth(metric, depth)
    if depth is None and all(metric.k is not None for metric in ranked):
        depth = max((metric.k for metric in ranked if metric.k is not None), default=None)
    return Plan(
        depth=depth,
        hits=tuple(sorted({hits_options(metric, depth) for metric in ranked}, key=str)),
        exposures=_exposures_options(metrics, max_items),
        graded=tuple(sorted({metric for metric in ranked if metric.needs_gains}, key=str)),
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
    values = metric.values
    after_cut = values["repeats"] == "compact_after_cut"
    rows = (values["rows"] or metric.k) if after_cut else None
    return HitsOptions(
        depth=depth,
        repeats=values["repeats"],  # type: ignore[arg-type]  # checked against the choices
        rows=rows,  # type: ignore[arg-type]  # an int by its parameter's kind
        min_gain=float(values["min_gain"]),
    )


def _exposures_options(metrics: Sequence[Metric], max_items: int) -> ExposuresOptions | None:
    cutoffs = {metric.k for metric in metrics if metric.definition.reads == "exposures"}
    if not cutoffs:
        return None
    return ExposuresOptions(
        cutoffs=tuple(sorted(k for k in cutoffs if k is not None)),
        whole=None in cutoffs,
        max_items=max_items,
    )
