"""The metrics of a snapshot as families of Prometheus."""

from __future__ import annotations

import math
from collections.abc import Iterable

from streameval.exporters.counters import Counters
from streameval.exporters.families import (
    Family,
    Sample,
    counts_up,
    family_name,
    metric_labels,
    slice_labels,
)
from streameval.metric import Definition, Metric
from streameval.pipeline.snapshot import Series, Snapshot

_COUNTED = {"list": "lists", "item": "items shown", "total": "lists", "slice": "lists"}


def notice(snapshot: Snapshot, counters: Counters) -> None:
    """Remember the counters of a snapshot as seen."""
    series = [entry for entry in snapshot.series if counts_up(entry.metric)]
    counters.notice(series, _label_names(snapshot))


def evidence(snapshot: Snapshot, counters: Counters) -> list[Family]:
    """One family per metric name and convention, in the order of the snapshot."""
    notice(snapshot, counters)
    counters.begin_scrape()
    families = []
    for name, series in _by_family(snapshot.series).items():
        if counts_up(series[0].metric):
            families.append(_summary(name, series, counters))
        else:
            families.append(_gauge(name, series, _label_names(snapshot)))
    return families


def _by_family(series: Iterable[Series]) -> dict[str, list[Series]]:
    names: dict[str, str] = {}
    found: dict[str, list[Series]] = {}
    for entry in series:
        text = entry.metric.text
        if text not in names:
            names[text] = family_name(entry.metric)
        found.setdefault(names[text], []).append(entry)
    return found


def _label_names(snapshot: Snapshot) -> tuple[str, ...]:
    metrics = {entry.metric.text: entry.metric for entry in snapshot.series}
    return slice_labels(snapshot.label_names, metrics.values())


def _summary(name: str, series: Iterable[Series], counters: Counters) -> Family:
    definition = next(iter(series)).metric.definition
    samples = []
    for entry in filter(_adds_up, series):
        exported = counters.scraped(entry)
        samples.append(Sample(f"{name}_sum", exported.labels, exported.total))
        samples.append(Sample(f"{name}_count", exported.labels, exported.count))
    return Family(name, "summary", _summary_help(name, definition), samples)


def _gauge(name: str, series: Iterable[Series], label_names: tuple[str, ...]) -> Family:
    metric = next(iter(series)).metric
    samples = [
        Sample(name, _labels(entry, label_names), entry.reading.value)
        for entry in series
        if entry.reading.defined
    ]
    return Family(name, "gauge", _gauge_help(metric), samples)


def _labels(entry: Series, label_names: tuple[str, ...]) -> dict[str, str]:
    return dict(zip(label_names, entry.labels, strict=True)) | metric_labels(entry.metric)


def _summary_help(name: str, definition: Definition) -> str:
    return (
        f"{definition.summary} _sum adds up the numerators and _count the "
        f"{_COUNTED[definition.per]}, since the process started; the mean of five minutes is "
        f"rate({name}_sum[5m]) / rate({name}_count[5m])."
    )


def _adds_up(entry: Series) -> bool:
    """Not where a convention leaves no value: a sum without it would pass for one."""
    total = entry.reading.total
    return total is not None and not math.isnan(total)


def _gauge_help(metric: Metric) -> str:
    statistic = str(metric.values.get("statistic", "mean"))
    over = "" if statistic == "mean" else f"{statistic.replace('_', ' ').capitalize()} of: "
    return (
        f"{over}{metric.definition.summary} Since the process started; absent without evidence. "
        "Values of several series do not add up."
    )
