"""The demo's table: both variants side by side, and the truth where the simulation knows it."""

from __future__ import annotations

from collections.abc import Mapping

from rich.table import Table
from rich.text import Text

from streameval.pipeline.snapshot import LIFETIME, Series, Snapshot
from streameval.sources.simulator import VARIANTS, Variant, expected_ctr, expected_hit_rate


def values(snapshot: Snapshot) -> Mapping[str, Mapping[str, Series]]:
    """Metric text -> variant -> its series over the lifetime."""
    found: dict[str, dict[str, Series]] = {}
    for series in snapshot.series:
        if series.window == LIFETIME:
            found.setdefault(series.metric.text, {})[series.labels[0]] = series
    return found


def number(series: Series | None) -> str:
    """A value to four digits; "-" without one."""
    if series is None or not series.reading.defined:
        return "-"
    return f"{series.reading.value:.4f}"


def table(snapshot: Snapshot) -> Table:
    """Both variants side by side, with the true difference where the simulation knows it."""
    grid = Table(header_style="bold", title="simulated traffic, values since start")
    grid.add_column("metric")
    for name in (*VARIANTS, "difference", "true difference"):
        grid.add_column(name, justify="right", min_width=10)
    for metric, variants in values(snapshot).items():
        found = [variants.get(variant) for variant in VARIANTS]
        truth = _truth(metric)
        true = "" if truth is None else f"{truth:+.4f}"
        grid.add_row(Text(metric), *map(number, found), _difference(found), true)
    return grid


def _difference(found: list[Series | None]) -> str:
    defined = [each.reading.value for each in found if each is not None and each.reading.defined]
    return f"{defined[1] - defined[0]:+.4f}" if len(defined) == len(VARIANTS) else "-"


def _truth(metric: str) -> float | None:
    def true(variant: Variant) -> float | None:
        if metric == "ctr":
            return expected_ctr(variant)
        return expected_hit_rate(variant, 10) if metric == "hit_rate@10" else None

    control, treatment = map(true, VARIANTS)
    return None if control is None or treatment is None else treatment - control
