"""The laws hold for what is really kept: the bytes of accumulators, not only their sums."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from streameval import Accumulator, Event
from streameval.aggregation.family import Family
from streameval.aggregation.folding import FoldingOptions
from streameval.aggregation.lateness import late
from streameval.aggregation.spec import FamilySpec
from streameval.aggregation.time import FINE, HOUR
from streameval.aggregation.views import Views
from streameval.events import columns_of
from streameval.pipeline.clock import NEVER
from tests.aggregation.logs import MINUTE, TIMES, times
from tests.strategies import WORDS, gains, lists

Logged = tuple[int, str, Event]

SPANS = (5 * MINUTE, HOUR, 6 * HOUR)
shown = lists(WORDS, gains).map(
    lambda one: Event(
        recommendations=one.recommendations,
        interactions=one.interactions,
        positions=one.positions,
    )
)
logs = st.lists(st.tuples(times, st.sampled_from("abc"), shown), min_size=1, max_size=20)


def accumulator() -> Accumulator:
    return Accumulator("ndcg@3", "recall@5", "mrr(statistic=median)@5", "distinct_items@3")


def family() -> Family[Accumulator]:
    spec = FamilySpec(
        name="labels",
        dimensions=("variant",),
        columns=(0,),
        spans=SPANS,
        new=accumulator,
        folding=FoldingOptions(cap=2),
    )
    return Family(spec, TIMES)


def feed(into: Family[Accumulator], log: Sequence[Logged], step: int, clock: int | None) -> int:
    for start in range(0, len(log), step):
        happened, variants, events = zip(*log[start : start + step], strict=True)
        clocks = np.maximum.accumulate(np.array([NEVER if clock is None else clock, *happened]))[1:]
        judged, clock = late(np.array(happened), clocks, TIMES), int(clocks[-1])
        dimensions = [(variant,) for variant in variants]
        into.update(columns_of(events), dimensions, judged.starts, np.array(happened))
        into.advance(clock)
    return clock or 0


def saved(of: Family[Accumulator]) -> dict[str, bytes]:
    return {section.name: b"".join(section.content()()) for section in of.sections()}


@settings(max_examples=30)
@given(logs, logs, st.integers(1, 20))
def test_split_saved_and_restored_the_bytes_are_the_same(
    before: list[Logged], after: list[Logged], step: int
) -> None:
    lived, again = family(), family()
    feed(lived, before + after, len(before + after), None)
    first = family()
    clock = feed(first, before, step, None)
    assert again.restore(saved(first)) == frozenset()
    feed(again, after, step, clock)
    assert saved(again) == saved(lived)


@settings(max_examples=30)
@given(st.lists(logs, min_size=1, max_size=3))
def test_views_read_what_one_accumulator_would_have_counted(parts: list[list[Logged]]) -> None:
    families = [family() for _ in parts]
    clocks = [feed(each, part, 7, None) for each, part in zip(families, parts, strict=True)]
    views = Views(families[0].spec)
    views.families = families
    for span in SPANS:
        size = HOUR if span > FINE else MINUTE
        start = (max(clocks) - span) // size * size
        inside = [event for part in parts for event in part if event[0] >= start]
        assert _bytes(views.window(span, max(clocks))) == _bytes(_naive(inside, views))
    everything = [event for part in parts for event in part]
    assert _bytes(views.lifetime()) == _bytes(_naive(everything, views))


def _naive(
    log: Sequence[Logged], views: Views[Accumulator]
) -> list[tuple[tuple[str, ...], Accumulator]]:
    by_labels: defaultdict[tuple[str, ...], list[Event]] = defaultdict(list)
    for _, variant, event in log:
        by_labels[views.folding.settled((variant,))].append(event)
    found = {labels: accumulator() for labels in by_labels}
    for labels, events in by_labels.items():
        found[labels].update_many(events)
    return sorted(found.items(), key=lambda item: item[0])


def _bytes(
    found: Sequence[tuple[tuple[str, ...], Accumulator]],
) -> list[tuple[tuple[str, ...], bytes]]:
    return [(labels, b"".join(each.dump())) for labels, each in found]
