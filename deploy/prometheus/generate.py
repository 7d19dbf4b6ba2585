#!/usr/bin/env python3
"""Writes the recording rules and alerts about metrics: `python generate.py > metrics.yml`.

Name your own metrics as /metrics does, without `streameval_` and `_sum`:

    python generate.py ctr ndcg recbole_ndcg --labels variant,campaign > metrics.yml

The alert compares a metric with the day before: it must lie between 0 and 1, and higher must be
better. Variants are compared by the daemon itself, by user: see `[experiment]`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from textwrap import indent

METRICS = ("hit_rate", "ndcg", "mrr", "recall", "ctr", "precision", "map")
# How often the means of each span are recorded.
SPANS = {"5m": "1m", "1h": "1m", "1d": "5m"}
REPLICAS = "instance, pod, container, endpoint"
# Lists of one user are alike: taken as independent, an interval of 95 % held 70 % of the time,
# which is a variance 3.6 times too small.
DESIGN = 4
SIGMAS = 4
SUPPORT = 500
RUNBOOK = "docs/runbook.md"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the rules that the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("metrics", nargs="*", default=METRICS)
    parser.add_argument("--labels", default="variant", help="all of your `labels`")
    parser.add_argument("--runbook", default=RUNBOOK, help="where people find the runbook")
    asked = parser.parse_args(arguments)
    metrics = list(dict.fromkeys(asked.metrics))
    sys.stdout.write(rules(metrics, asked.labels.split(","), asked.runbook))


def rules(
    metrics: Sequence[str] = METRICS,
    labels: Sequence[str] = ("variant",),
    runbook: str = RUNBOOK,
) -> str:
    """The file of rules, as YAML."""
    extra = {
        "5m": [*_windows(metrics)],
        "1h": [*_yesterday(metrics), *_drop(), dropped(runbook)],
        "1d": [],
    }
    groups = [_group(span, [*_means(span, metrics, labels), *extra[span]]) for span in SPANS]
    return "# Written by generate.py; change it there, or name your own metrics to it.\n" + (
        "groups:\n" + "".join(groups)
    )


def _means(span: str, metrics: Sequence[str], labels: Sequence[str]) -> Iterator[str]:
    for metric in metrics:
        for part in ("sum", "count"):
            rate = f"rate(streameval_{metric}_{part}[{span}])"
            yield record(f"series:streameval_{part}:rate{span}", over_replicas(rate), metric)
        name = f"streameval_{metric}"
        per = f"rate({name}_sum[{span}])\n  / (rate({name}_count[{span}]) > 0)"
        yield record(f"instance:streameval_mean:rate{span}", per, metric)
    total, count = (f"series:streameval_{part}:rate{span}" for part in ("sum", "count"))
    yield record(f"series:streameval_mean:rate{span}", f"{total}\n  / ({count} > 0)")
    named = ", ".join(labels)
    over_all = f"sum without ({named}) ({total})\n  / (sum without ({named}) ({count}) > 0)"
    yield record(f"job:streameval_mean:rate{span}", over_all)


def _windows(metrics: Sequence[str]) -> Iterator[str]:
    """Gauges of event time over replicas: means by what is behind them, coverage at least."""
    for metric in metrics:
        name = f"streameval_{metric}_window"
        weighted = over_replicas(f"{name}_mean * {name}_support")
        yield record(
            "series:streameval_window_mean:weighted",
            f"{weighted}\n  / ({over_replicas(f'{name}_support')} > 0)",
            metric,
        )
    coverage = f"max without ({REPLICAS}) (streameval_item_coverage)"
    yield record("series:streameval_item_coverage:max", coverage)


def _yesterday(metrics: Sequence[str]) -> Iterator[str]:
    for metric in metrics:
        for part in ("sum", "count"):
            rate = f"rate(streameval_{metric}_{part}[1h] offset 1d)"
            name = f"series:streameval_{part}:rate1h_offset1d"
            yield record(name, over_replicas(rate), metric)
    total, count = (f"series:streameval_{part}:rate1h_offset1d" for part in ("sum", "count"))
    yield record("series:streameval_mean:rate1h_offset1d", f"{total}\n  / ({count} > 0)")


def _drop() -> Iterator[str]:
    """By how many standard errors the mean of an hour is below that of a day before.

    A value between 0 and 1 varies at most as much as a coin of the same mean.
    """
    now, then = "series:streameval_{}:rate1h".format, "series:streameval_{}:rate1h_offset1d".format
    pooled = "series:streameval_drop:pooled1h"
    both = f"({now('mean')} * {now('count')} + {then('mean')} * {then('count')})"
    yield record(pooled, f"{both}\n  / ({now('count')} + {then('count')})")
    lists = f"(1 / {now('count')} + 1 / {then('count')})"
    variance = f"{DESIGN} * {pooled} * (1 - {pooled})\n      * {lists}"
    below = f"({then('mean')} - {now('mean')})"
    root = f"sqrt(\n    {variance}\n      / 3600\n  )"
    yield record("series:streameval_drop:sigmas1h", f"{below}\n  / {root}")


def dropped(runbook: str) -> str:
    """The alert that a metric is below the same hour of the day before."""
    support = f"series:streameval_count:rate1h * 3600 > {SUPPORT}"
    return alert(
        "StreamevalMetricDropped",
        f"series:streameval_drop:sigmas1h > {SIGMAS}\n"
        "  and series:streameval_mean:rate1h < 0.95 * series:streameval_mean:rate1h_offset1d\n"
        f"  and {support}\n  and {support.replace('rate1h', 'rate1h_offset1d')}",
        "15m",
        "{{ $labels.metric }} is below what it was at this hour yesterday.",
        "The mean of the last hour is {{ $value | humanize }} standard errors and more than 5 % "
        "below that of the same hour of the day before, on {{ $labels }}.",
        runbook,
    )


def over_replicas(expression: str) -> str:
    """The sum over replicas; labels of the series stay."""
    return f"sum without ({REPLICAS}) ({expression})"


def record(name: str, expression: str, metric: str | None = None) -> str:
    """One recording rule."""
    named = "" if metric is None else f"  labels:\n    metric: {metric}\n"
    return f"- record: {name}\n  expr: |\n{indent(expression, '    ')}\n{named}"


def alert(
    name: str, expression: str, patience: str, summary: str, description: str, runbook: str
) -> str:
    """One alert, with the section of the runbook that goes with it."""
    return (
        f"- alert: {name}\n  expr: |\n{indent(expression, '    ')}\n  for: {patience}\n"
        "  labels:\n    severity: warning\n  annotations:\n"
        f"    summary: >-\n      {summary}\n    description: >-\n      {description}\n"
        f"    runbook_url: {runbook}#{name.lower()}\n"
    )


def _group(span: str, written: Sequence[str]) -> str:
    title = f"  - name: streameval-{span}\n    interval: {SPANS[span]}\n    rules:\n"
    return title + indent("".join(written), "      ")


if __name__ == "__main__":
    main()
