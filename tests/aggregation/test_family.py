"""A family holds every event once, wherever it is by the clock."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streameval.aggregation.family import Family
from streameval.aggregation.folding import FoldingOptions
from streameval.aggregation.lateness import late
from streameval.aggregation.spec import FamilySpec
from streameval.aggregation.time import HOUR, SECOND, Times
from tests.aggregation.counting import Counting, batch

MINUTE = 60 * SECOND
Logged = tuple[int, tuple[str, ...]]
TIMES = Times(pane=MINUTE, spans=(5 * MINUTE, HOUR, 6 * HOUR), lateness=2 * MINUTE)

events = st.tuples(
    st.integers(-3 * HOUR, 30 * HOUR),
    st.tuples(st.sampled_from("abc"), st.sampled_from("pqrstuvw")),
)
logs = st.lists(events, min_size=1, max_size=40)
spans = st.sampled_from([(), (MINUTE,), (5 * MINUTE, HOUR), (2 * HOUR,), (HOUR, 3 * HOUR)])
foldings = st.builds(
    FoldingOptions, cap=st.integers(0, 4), max_series=st.integers(0, 5) | st.just(1_000)
)


def family(own: tuple[int, ...], folding: FoldingOptions) -> Family[Counting]:
    spec = FamilySpec(
        name="labels",
        dimensions=("variant", "country"),
        columns=(1, 0),
        spans=own,
        new=Counting,
        folding=folding,
    )
    return Family(spec, TIMES)


class Log:
    """Feeds a family as a partition does."""

    def __init__(self, fed: Family[Counting]) -> None:
        self.family = fed
        self.clock: int | None = None

    def feed(self, part: list[Logged]) -> None:
        if part:
            times = np.array([time for time, _ in part])
            judged = late(times, self.clock, TIMES)
            self.clock = judged.clock
            dimensions = [labels for _, labels in part]
            lists = batch(*[1] * len(part))
            self.family.update(lists, dimensions, judged.starts, times)
            self.family.advance(judged.clock)


def saved(of: Family[Counting]) -> dict[str, bytes]:
    return {section.name: b"".join(section.content()()) for section in of.sections()}


def fed(log: list[Logged], own: tuple[int, ...], folding: FoldingOptions, step: int) -> Log:
    feeding = Log(family(own, folding))
    for start in range(0, len(log), step):
        feeding.feed(log[start : start + step])
    return feeding


@given(logs, spans, foldings, st.integers(1, 40))
def test_any_split_into_batches_gives_the_same_bytes(
    log: list[Logged], own: tuple[int, ...], folding: FoldingOptions, step: int
) -> None:
    together, apart = fed(log, own, folding, len(log)), fed(log, own, folding, step)
    assert saved(together.family) == saved(apart.family)
    assert sum(s.events for s in together.family.seen.by_labels.values()) == len(log)


@given(logs, logs, spans, foldings)
def test_saved_and_restored_it_goes_on_to_the_same_bytes(
    before: list[Logged], after: list[Logged], own: tuple[int, ...], folding: FoldingOptions
) -> None:
    lived = fed(before, own, folding, 7)
    again = Log(family(own, folding))
    assert again.family.restore(saved(lived.family)) == frozenset()
    assert saved(again.family) == saved(lived.family)
    again.clock = lived.clock
    lived.feed(after)
    again.feed(after)
    assert saved(again.family) == saved(lived.family)
