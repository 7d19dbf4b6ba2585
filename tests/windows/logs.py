"""Logs of events with times and labels, and a family that counts them as a partition does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from hypothesis import strategies as st

from streameval import Accumulator, Event, Intervals
from streameval.accumulator.table import Table
from streameval.engine.clock import BEFORE_ALL
from streameval.engine.windows.family import Counting, Family, FamilySpec, LoggedEvents
from streameval.engine.windows.labels import LabelCapOptions, Labels
from streameval.engine.windows.times import HOUR, SECOND, Windowing, assign_panes
from streameval.engine.windows.views import FamilyView
from streameval.events import columns_of
from tests.batches import content_of

MINUTE = 60 * SECOND
TIMES = Windowing(pane=MINUTE, spans=(5 * MINUTE, HOUR, 6 * HOUR), lateness=2 * MINUTE)
HOURS = (MINUTE, HOUR, 6 * HOUR)
BY_USER = Intervals(groups=256)
METRICS = ("ctr", "mrr")
_USERS = ("u1", "u2", "u3", None)

Logged = tuple[int, tuple[str, str]]
"""Event time, and values of two dimensions."""

times = st.integers(-3 * HOUR, 30 * HOUR) | st.integers(-3, 1_800).map(MINUTE.__mul__)
labels = st.tuples(st.sampled_from("abc"), st.sampled_from("pqrstuvw"))
logs = st.lists(st.tuples(times, labels), min_size=1, max_size=40)
spans = st.sampled_from([(), (MINUTE,), (5 * MINUTE, HOUR), (2 * HOUR,), HOURS])
foldings = st.builds(
    LabelCapOptions, cap=st.integers(0, 4), max_series=st.integers(0, 5) | st.just(1_000)
)


def spec_of(
    lengths: tuple[int, ...],
    label_caps: LabelCapOptions | None = None,
    intervals: Intervals | None = None,
) -> FamilySpec:
    empty = Accumulator(*METRICS, intervals=intervals)
    return FamilySpec(
        name="labels",
        metrics=empty.metrics,
        table=empty.table,
        dimensions=("country", "variant"),
        columns=(1, 0),
        spans=lengths,
        label_caps=label_caps or LabelCapOptions(),
    )


specs = st.builds(spec_of, spans, foldings, st.sampled_from([None, BY_USER]))


def events(log: Sequence[Logged]) -> list[Event]:
    """Lists of two items, with user and clicks derived from the time."""
    return [
        Event(
            recommendations=["x", "y"],
            interactions=["y"] if (time + time // MINUTE) % 3 else [],
            user=_USERS[(time + time // MINUTE) % 4],
            ts=time,
        )
        for time, _ in log
    ]


_COUNTINGS: dict[int, tuple[FamilySpec, Counting]] = {}


def counting_of(spec: FamilySpec) -> Counting:
    """What all families of one specification share."""
    return _COUNTINGS.setdefault(id(spec), (spec, Counting()))[1]


class Log:
    """Feeds a family as a partition does."""

    def __init__(self, spec: FamilySpec) -> None:
        self.family = Family(spec, TIMES, counting_of(spec))
        self.clock: int | None = None

    def feed(self, part: Sequence[Logged]) -> None:
        if part:
            happened = np.array([time for time, _ in part])
            clocks = np.maximum(
                np.maximum.accumulate(happened), BEFORE_ALL if self.clock is None else self.clock
            )
            starts, _ = assign_panes(happened, clocks, TIMES)
            self.clock = int(clocks[-1])
            dimensions = [values for _, values in part]
            self.count(
                LoggedEvents(columns_of(events(part)), dimensions, starts, happened, happened)
            )
            self.family.advance(self.clock)

    def count(self, logged: LoggedEvents) -> None:
        pending = counting_of(self.family.spec).pending(self.family.spec.name)
        pending.count([self.family], [0, len(logged.batch)], logged)

    def section_bytes(self) -> dict[str, bytes]:
        return section_bytes(self.family)

    def versions(self) -> dict[str, int]:
        return {section.name: section.version for section in self.family.sections()}


def section_bytes(family: Family) -> dict[str, bytes]:
    return content_of(family.sections())


def fed(log: Sequence[Logged], spec: FamilySpec, step: int | None = None) -> Log:
    feeding = Log(spec)
    for start in range(0, len(log), step or len(log) or 1):
        feeding.feed(log[start : start + (step or len(log))])
    return feeding


def restored(log: Log) -> Log:
    """Another log that continues from the saved state."""
    copy = Log(log.family.spec)
    copy.family, new = copy.family.restore(log.section_bytes())
    assert new == frozenset()
    copy.clock = log.clock
    if log.clock is not None:
        copy.family.advance(log.clock)
    return copy


def counts(table: Table, spec: FamilySpec) -> Mapping[Labels, int]:
    cells = table.cells
    pairs = zip(cells.tolist(), table.lists(cells).tolist(), strict=True)
    return {counting_of(spec).slices(spec.name).labels[cell]: number for cell, number in pairs}


def views_of(fed_logs: Sequence[Log]) -> FamilyView:
    views = FamilyView(fed_logs[0].family.spec, MINUTE)
    show(views, fed_logs)
    return views


def show(views: FamilyView, fed_logs: Sequence[Log]) -> None:
    views.refresh([log.family.copied() for log in fed_logs])
