"""Logs of events with times and labels, and a family that is fed with them as a partition does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from hypothesis import strategies as st

from streameval.aggregation.family import Family
from streameval.aggregation.folding import FoldingOptions
from streameval.aggregation.lateness import late
from streameval.aggregation.spec import FamilySpec
from streameval.aggregation.time import HOUR, SECOND, Times
from streameval.pipeline.clock import NEVER
from tests.aggregation.counting import Counting, batch

MINUTE = 60 * SECOND
TIMES = Times(pane=MINUTE, spans=(5 * MINUTE, HOUR, 6 * HOUR), lateness=2 * MINUTE)

Logged = tuple[int, tuple[str, str]]
"""Event time, and values of two dimensions."""

times = st.integers(-3 * HOUR, 30 * HOUR) | st.integers(-3, 1_800).map(MINUTE.__mul__)
labels = st.tuples(st.sampled_from("abc"), st.sampled_from("pqrstuvw"))
logs = st.lists(st.tuples(times, labels), min_size=1, max_size=40)
spans = st.sampled_from([(), (MINUTE,), (5 * MINUTE, HOUR), (2 * HOUR,), (MINUTE, HOUR, 6 * HOUR)])
foldings = st.builds(
    FoldingOptions, cap=st.integers(0, 4), max_series=st.integers(0, 5) | st.just(1_000)
)


def spec_of(own: tuple[int, ...], folding: FoldingOptions | None = None) -> FamilySpec[Counting]:
    return FamilySpec(
        name="labels",
        dimensions=("country", "variant"),
        columns=(1, 0),
        spans=own,
        new=Counting,
        folding=folding or FoldingOptions(),
    )


class Log:
    """Feeds a family as a partition does."""

    def __init__(self, spec: FamilySpec[Counting]) -> None:
        self.family = Family(spec, TIMES)
        self.clock: int | None = None

    def feed(self, part: Sequence[Logged]) -> None:
        if part:
            happened = np.array([time for time, _ in part])
            clocks = np.maximum(
                np.maximum.accumulate(happened), NEVER if self.clock is None else self.clock
            )
            judged = late(happened, clocks, TIMES)
            self.clock = int(clocks[-1])
            dimensions = [values for _, values in part]
            self.family.update(batch(*[1] * len(part)), dimensions, judged.starts, happened)
            self.family.advance(self.clock)

    def saved(self) -> dict[str, bytes]:
        return saved(self.family)


def saved(family: Family[Counting]) -> dict[str, bytes]:
    return {section.name: b"".join(section.content()()) for section in family.sections()}


def fed(log: Sequence[Logged], spec: FamilySpec[Counting], step: int | None = None) -> Log:
    feeding = Log(spec)
    for start in range(0, len(log), step or len(log) or 1):
        feeding.feed(log[start : start + (step or len(log))])
    return feeding


def counts(found: Sequence[tuple[tuple[str, ...], Counting]]) -> Mapping[tuple[str, ...], int]:
    return {values: counting.events for values, counting in found}
