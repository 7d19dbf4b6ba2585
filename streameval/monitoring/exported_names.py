"""Names that a configuration exports to Prometheus: metrics, labels and windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from streameval.catalogue.metric import Metric
from streameval.config.config import Config
from streameval.engine.snapshot import LIFETIME
from streameval.exporters.names import PREFIX, family_name, metric_labels, slice_labels

COVERAGE: Final = "item_coverage"
WEIGHT: Final = "importance_weight"


class Names:
    """The names of the families, labels and windows of a configuration.

    Attributes:
        config: the configuration.
        metrics: of all slices together, in the order of the configuration.
        labels: names of the labels of the series.
        segments: names of the segments, as in the names of families.
        spans: names of the windows besides the lifetime.
        windows: names of all windows, the lifetime last; empty if gauges have no label for them.
        has_coverage_windows: whether windows besides the lifetime count item coverage.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        families = config.families()
        every = list(dict.fromkeys(metric for family in families for metric in family.metrics))
        unsegmented = [family for family in families if family.segment is None]
        self.metrics = list(
            dict.fromkeys(metric for family in unsegmented for metric in family.metrics)
        )
        self.labels: Sequence[str] = slice_labels(config.series_labels(), every)
        self.segments = list(
            dict.fromkeys(
                family_name(family.metrics[0], family.segment).removeprefix(
                    f"{family_name(family.metrics[0])}_by_"
                )
                for family in families
                if family.segment is not None
            )
        )
        windowing = config.windowing()
        self.spans = [*map(windowing.name, windowing.spans)]
        is_windowed = config.windows is not None or config.state is not None
        self.windows = [*self.spans, LIFETIME] if is_windowed else []
        self.has_coverage_windows = any(
            metric.definition.name == COVERAGE and family.spans
            for family in unsegmented
            for metric in family.metrics
        )

    @property
    def means(self) -> list[Metric]:
        """The metrics whose sums and counts are counters."""
        return [metric for metric in self.metrics if metric.counts_up]

    @property
    def gauges(self) -> list[str]:
        """Names of the gauges without counters, without prefix."""
        others = [metric for metric in self.metrics if not metric.counts_up]
        return list(
            dict.fromkeys(
                short_name(metric)
                + "_window_mean" * (metric.is_per_user and metric.values["statistic"] == "mean")
                for metric in others
            )
        )

    @property
    def cutoffs(self) -> list[str]:
        """The cut-offs, ascending."""
        return [str(k) for k in sorted({m.k for m in self.metrics if m.k is not None})]

    def selector(self, metric: Metric) -> str:
        """The matchers that tell a metric from the others of its family, in braces.

        Example: {gain="",k="10"} for ndcg@10 beside ndcg(gain=exp2)@10.
        """
        labels = metric_labels(metric)
        others = (other for other in self.metrics if short_name(other) == short_name(metric))
        names = {name for other in others for name in metric_labels(other)} | {*labels}
        return ",".join(f'{name}="{labels.get(name, "")}"' for name in sorted(names))


def short_name(metric: Metric) -> str:
    """The name of a metric in Prometheus, without prefix.

    Example:
        >>> from streameval.catalogue import parse
        >>> short_name(parse("recbole:ndcg@10"))
        'recbole_ndcg'
    """
    return family_name(metric).removeprefix(PREFIX)


def short_names(metrics: Sequence[Metric]) -> list[str]:
    """The names of these metrics without prefix, each once."""
    return list(dict.fromkeys(map(short_name, metrics)))
