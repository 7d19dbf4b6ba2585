"""The metrics that are summed by user group, by user, or before an experiment."""

from __future__ import annotations

from collections.abc import Iterable

from streameval.accumulator.counting import SummedMetric
from streameval.accumulator.kinds.hits import hits_options
from streameval.accumulator.kinds.spec import PlanLimits
from streameval.catalogue.metric import Metric


def summed_metrics(metrics: Iterable[Metric], limits: PlanLimits) -> tuple[SummedMetric, ...]:
    """The metrics with the lists whose values are summed, by text."""
    return merged_sums(
        SummedMetric(
            metric.as_per_list,
            None if metric.reads == "event" else hits_options(metric, limits.depth),
        )
        for metric in metrics
    )


def merged_sums(summed: Iterable[SummedMetric]) -> tuple[SummedMetric, ...]:
    """The metrics by text, each once."""
    by_text = {each.text: each for each in summed}
    return tuple(by_text[text] for text in sorted(by_text))
