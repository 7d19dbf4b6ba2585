"""A snapshot's series as a person reads them: by family, with windows side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from streameval.metric import Metric
from streameval.pipeline.snapshot import LIFETIME, Series, SeriesFamily, Snapshot


class Division(NamedTuple):
    """The series of one family.

    Attributes:
        family: which one.
        windows: that stand side by side, lifetime last; only that where there are no windows.
        metrics: each with its series.
    """

    family: SeriesFamily
    windows: tuple[str, ...]
    metrics: Sequence[tuple[Metric, Sequence[Series]]]

    @property
    def windowed(self) -> bool:
        """Whether there is more to choose from than the lifetime."""
        return self.windows != (LIFETIME,)

    @property
    def by(self) -> str:
        """What it is divided by, for a person."""
        return ", ".join(self.family.label_names) or "nothing"


def divisions(snapshot: Snapshot) -> list[Division]:
    """The families that have series, in their order."""
    found = []
    for place, series in groupby(snapshot.series, key=lambda entry: entry.family):
        listed, family = list(series), snapshot.families[place]
        metrics = groupby(listed, key=lambda entry: entry.metric)
        found.append(
            Division(family, _windows(family, listed), [(each, list(of)) for each, of in metrics])
        )
    return found


def by_slice(series: Iterable[Series]) -> dict[tuple[str, ...], Mapping[str, Series]]:
    """Label values, and the series of each window."""
    found: dict[tuple[str, ...], dict[str, Series]] = {}
    for entry in series:
        found.setdefault(entry.labels, {})[entry.window] = entry
    return dict(found)


def has_windows(snapshot: Snapshot) -> bool:
    """Whether any series is of a window."""
    named = any(family.windows for family in snapshot.families)
    return named or any(entry.window != LIFETIME for entry in snapshot.series)


def _windows(family: SeriesFamily, series: Iterable[Series]) -> tuple[str, ...]:
    found = dict.fromkeys((*family.windows, *(entry.window for entry in series)))
    found.pop(LIFETIME, None)
    return (*found, LIFETIME)
