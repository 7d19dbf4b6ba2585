"""The sentences that explain a metric to whoever meets it in Prometheus."""

from __future__ import annotations

from streameval.metric import Metric

_COUNTED = {"list": "lists", "item": "items shown", "total": "lists", "slice": "lists"}


def summary_help(name: str, metric: Metric) -> str:
    """Of the counters of a mean."""
    return (
        f"{metric.definition.summary} _sum adds up the numerators and _count the "
        f"{_COUNTED[metric.definition.per]}, since the process started; the mean of five minutes "
        f"is rate({name}_sum[5m]) / rate({name}_count[5m])."
    )


def mean_help(metric: Metric) -> str:
    """Of means by window."""
    return (
        f"{metric.definition.summary} Mean of a window of event time, lifetime included; absent "
        "without evidence. Series combine as sum(mean * support) / sum(support)."
    )


def support_help(name: str, metric: Metric) -> str:
    """Of what is behind them."""
    return f"How many {_COUNTED[metric.definition.per]} are behind {name}_window_mean."


def gauge_help(metric: Metric, windowed: bool) -> str:  # noqa: FBT001  says which of two
    """Of what does not add up."""
    statistic = str(metric.values.get("statistic", "mean"))
    over = "" if statistic == "mean" else f"{statistic.replace('_', ' ').capitalize()} of: "
    since = (
        "Of a window of event time, lifetime included" if windowed else "Since the process started"
    )
    return (
        f"{over}{metric.definition.summary} {since}; absent without evidence. "
        "Values of several series do not add up."
    )
