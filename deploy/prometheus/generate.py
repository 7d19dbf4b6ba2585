#!/usr/bin/env python3
"""Writes the recording rules and alerts about metrics: `python generate.py > metrics.yml`.

Name your own metrics as /metrics does, without `streameval_` and `_sum`:

    python generate.py ctr ndcg recbole_ndcg --labels variant,campaign --control a > metrics.yml

Metrics that are compared must lie between 0 and 1, and higher must be better.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from textwrap import indent

METRICS = ("hit_rate", "ndcg", "mrr", "recall", "ctr", "precision", "map")
SPANS = {"5m": ("5m", 300, "1m"), "1h": ("1h", 3_600, "1m"), "1d": ("1d", 86_400, "5m")}
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
    parser.add_argument("--labels", default="variant", help="all of `labels`, the compared first")
    parser.add_argument("--control", default="control", help="the value the others compare with")
    parser.add_argument("--lists", default="hit_rate", help="a metric that counts all lists")
    parser.add_argument("--shares", default="", help="intended split where unequal: a=0.9,b=0.1")
    parser.add_argument("--runbook", default=RUNBOOK, help="where people find the runbook")
    asked = parser.parse_args(arguments)
    labels = asked.labels.split(",")
    shares = dict(each.split("=") for each in asked.shares.split(",") if each)
    metrics = list(dict.fromkeys([*asked.metrics, asked.lists]))
    text = rules(metrics, labels, asked.control, asked.lists, shares, asked.runbook)
    sys.stdout.write(text)


def rules(
    metrics: Sequence[str] = METRICS,
    labels: Sequence[str] = ("variant",),
    control: str = "control",
    lists: str = "hit_rate",
    shares: dict[str, str] | None = None,
    runbook: str = RUNBOOK,
) -> str:
    """The file of rules, as YAML."""
    compared = labels[0]
    extra = {
        "5m": [*_windows(metrics)],
        "1h": [*_yesterday(metrics), dropped(runbook)],
        "1d": [
            *_control(compared, control),
            behind(compared, control, runbook),
            *_ratio(labels, lists, shares or {}),
            mismatch(compared, runbook),
        ],
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
    yield from _distance("drop", "1h", "1h_offset1d")


def _control(label: str, control: str) -> Iterator[str]:
    """What each other variant is compared with, on its own labels."""
    for part in ("mean", "count"):
        name = f"series:streameval_{part}:rate1d"
        spread = f'0 * {name}{{{label}!="{control}"}}\n  + ignoring ({label}) group_left ()'
        yield record(
            f"series:streameval_control_{part}:rate1d", f'{spread} {name}{{{label}="{control}"}}'
        )
    yield from _distance("behind", "1d", "1d", "control_")


def _distance(name: str, now: str, then: str, other: str = "") -> Iterator[str]:
    """By how many standard errors the one mean is below the other.

    A value between 0 and 1 varies at most as much as a coin of the same mean.
    """
    mean, count = (f"series:streameval_{part}:rate{now}" for part in ("mean", "count"))
    mean0, count0 = (f"series:streameval_{other}{part}:rate{then}" for part in ("mean", "count"))
    pooled = f"series:streameval_{name}:pooled{now}"
    yield record(pooled, f"({mean} * {count} + {mean0} * {count0})\n  / ({count} + {count0})")
    variance = f"{DESIGN} * {pooled} * (1 - {pooled})\n      * (1 / {count} + 1 / {count0})"
    difference = f"({mean0} - {mean})\n  / sqrt(\n    {variance}\n      / {SPANS[now][1]}\n  )"
    yield record(f"series:streameval_{name}:sigmas{now}", difference)


def _ratio(labels: Sequence[str], lists: str, shares: dict[str, str]) -> Iterator[str]:
    label, *others = labels
    found = f'series:streameval_count:rate1d{{metric="{lists}", {label}!~"__.*"}}'
    if shares:
        found = found.replace('!~"__.*"', f'=~"{"|".join(shares)}"')
    summed = f"sum without ({', '.join(others)}) ({found})" if others else found
    seen, expected = (f"job_{label}:streameval_{name}:rate1d" for name in ("lists", "expected"))
    yield record(seen, f"max by (job, {label}) ({summed})")
    if not shares:
        yield record(expected, f"0 * {seen} + on (job) group_left () avg by (job) ({seen})")
    for value, share in shares.items():
        yield record(expected, f"{share} * sum by (job) ({seen})", value, label)
    # The square of the difference over what was expected: Pearson's statistic.
    yield record(
        "job:streameval_sample_ratio:chi2",
        f"sum by (job) (({seen} - {expected}) ^ 2 / {expected}) * {SPANS['1d'][1]}",
    )


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


def behind(label: str, control: str, runbook: str) -> str:
    """The alert that a variant is below the control."""
    return alert(
        "StreamevalVariantBehind",
        f"series:streameval_behind:sigmas1d > {SIGMAS}\n"
        "  and series:streameval_mean:rate1d < 0.99 * series:streameval_control_mean:rate1d\n"
        f"  and series:streameval_count:rate1d * 86400 > {SUPPORT}",
        "1h",
        f"{{{{ $labels.{label} }}}} is behind {control} in {{{{ $labels.metric }}}}.",
        "The mean of the last day is {{ $value | humanize }} standard errors and more than 1 % "
        f"below that of {control}, on {{{{ $labels }}}}.",
        runbook,
    )


def mismatch(label: str, runbook: str) -> str:
    """The alert that the variants' shares of the lists are not those intended."""
    seen = f"job_{label}:streameval_lists:rate1d"
    # 18 + 3 n is near the millionth part of chi-square for n variants.
    return alert(
        "StreamevalSampleRatioMismatch",
        f"job:streameval_sample_ratio:chi2 > {DESIGN} * (18 + 3 * count by (job) ({seen}))\n"
        f"  and count by (job) ({seen}) == count by (job) ({seen} offset 1d)",
        "1h",
        "The variants do not get the shares of the lists that they should.",
        "Chi-square of the last day's lists is {{ $value | humanize }}: compare "
        f"{seen} with {seen.replace('lists', 'expected')}.",
        runbook,
    )


def over_replicas(expression: str) -> str:
    """The sum over replicas; labels of the series stay."""
    return f"sum without ({REPLICAS}) ({expression})"


def record(name: str, expression: str, value: str | None = None, label: str = "metric") -> str:
    """One recording rule."""
    named = "" if value is None else f"  labels:\n    {label}: {value}\n"
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
    title = f"  - name: streameval-{span}\n    interval: {SPANS[span][2]}\n    rules:\n"
    return title + indent("".join(written), "      ")


if __name__ == "__main__":
    main()
