"""What a family keeps by user: its own sums of each event day, once, and each user once."""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streameval import Accumulator, Batch, Event, Intervals
from streameval.accumulator.plan import PANE_GROUPS
from streameval.accumulator.readings import audiences
from streameval.engine.clock import NEVER
from streameval.events import columns_of
from streameval.statistics.groups import MOST_DAYS
from streameval.windows.family import Family, FamilySpec
from streameval.windows.labels import FoldingOptions
from streameval.windows.times import BEYOND, DAY, HOUR, Times, late
from streameval.windows.views import Views
from tests.windows.logs import MINUTE, saved

INTERVALS = Intervals(groups=256)
METRICS = ("ctr", "mrr")
TIMES = Times(pane=MINUTE, spans=(5 * MINUTE, 6 * HOUR), lateness=2 * MINUTE)


class Seen(NamedTuple):
    """A list that was seen: when, by whom, in which variant, and whether it was clicked."""

    time: int
    user: str | None
    variant: str
    clicked: int


seen = st.builds(
    Seen,
    st.integers(0, 4 * DAY),
    st.sampled_from(["u1", "u2", "u3", None]),
    st.sampled_from("abcdef"),
    st.integers(0, 1),
)
logs = st.lists(seen, max_size=30)


def spec_of(cap: int = 50) -> FamilySpec:
    empty = Accumulator(*METRICS, intervals=INTERVALS)
    return FamilySpec(
        name="labels",
        metrics=empty.metrics,
        table=empty.table.empty(),
        dimensions=("variant",),
        columns=(0,),
        spans=TIMES.spans,
        folding=FoldingOptions(cap=cap),
    )


def batch(log: list[Seen]) -> Batch:
    return columns_of(
        [
            Event(
                recommendations=["x", "y"],
                interactions=["y"] if each.clicked else [],
                user=each.user,
                ts=each.time,
            )
            for each in log
        ]
    )


def fed(log: list[Seen], spec: FamilySpec, step: int = 10, family: Family | None = None) -> Family:
    found = Family(spec, TIMES) if family is None else family
    for start in range(0, len(log), step):
        part = log[start : start + step]
        times = np.array([each.time for each in part])
        clocks = np.maximum(
            np.maximum.accumulate(times), NEVER if found.clock is None else found.clock
        )
        starts = late(times, clocks, TIMES).starts
        found.update(batch(part), [(each.variant,) for each in part], starts, times)
        found.advance(int(clocks[-1]))
    return found


def views_of(families: list[Family]) -> Views:
    views = Views(families[0].spec, MINUTE)
    views.show([each.copied() for each in families])
    return views


def content(views: Views) -> dict[str, list[object]]:
    """Sums by user group of each variant over the lifetime, and its users."""
    table = views.lifetime()
    cells = views.slices(table)
    assert table.groups is not None
    found: dict[str, list[object]] = {}
    for at, cell in enumerate(cells.tolist()):
        sums = [table.groups.of(metric, cells)[at] for metric in METRICS]
        audience = audiences(table, cells)[at]
        found[views.labels(cell)[0]] = [
            [[each.tolist() for each in one] for one in sums],
            [audience.hashes.tolist(), *audience[1:]],
        ]
    return found


def expected(log: list[Seen]) -> dict[str, list[object]]:
    """What an accumulator of each variant says."""
    apart: defaultdict[str, list[Seen]] = defaultdict(list)
    for each in log:
        apart[each.variant].append(each)
    found: dict[str, list[object]] = {}
    for variant, own in apart.items():
        accumulator = Accumulator(*METRICS, intervals=INTERVALS)
        accumulator.update_many(batch(own))
        sums = [accumulator.groups(metric) for metric in METRICS]
        audience = accumulator.audience
        assert audience is not None
        found[variant] = [
            [[each.tolist() for each in one or ()] for one in sums],
            [audience.hashes.tolist(), *audience[1:]],
        ]
    return found


@given(st.lists(logs, min_size=1, max_size=3), st.integers(1, 12))
def test_the_lifetime_of_partitions_is_what_accumulators_say(
    parts: list[list[Seen]], step: int
) -> None:
    spec = spec_of()
    families = [fed(part, spec, step) for part in parts]
    assert content(views_of(families)) == expected([each for part in parts for each in part])


@given(logs, logs, st.integers(0, 3))
def test_label_values_that_fold_take_their_users_along(
    first: list[Seen], second: list[Seen], cap: int
) -> None:
    spec = spec_of(cap)
    views = views_of([fed(first, spec), fed(second, spec)])
    kept = views.folding.values[0].kept
    together = [
        each._replace(variant=each.variant if each.variant in kept else "__other__")
        for each in first + second
    ]
    assert content(views) == expected(together)


@given(logs, logs)
def test_views_that_were_read_before_are_never_out_of_date(
    first: list[Seen], more: list[Seen]
) -> None:
    spec = spec_of(3)
    families = [fed(first, spec), Family(spec, TIMES)]
    views = views_of(families)
    for start in range(0, len(more), 4):
        views.lifetime()
        fed(more[start : start + 4], spec, family=families[start // 4 % 2])
        views.show([each.copied() for each in families])
    assert content(views) == content(views_of(families))


@given(logs, logs, st.integers(0, 5))
def test_it_returns_from_its_sections_and_goes_on(
    first: list[Seen], more: list[Seen], cap: int
) -> None:
    spec = spec_of(cap)
    family = fed(first, spec)
    restored = Family(spec, TIMES)
    restored.restore(saved(family))
    if first:
        restored.advance(family.clock or 0)
    for each in (family, restored):
        fed(more, spec, family=each)
    assert saved(restored) == saved(family)


@given(logs, st.randoms())
def test_its_sections_are_a_function_of_the_lists(log: list[Seen], draw: Random) -> None:
    shuffled = list(log)
    draw.shuffle(shuffled)
    one, other = (saved(fed(each, spec_of())) for each in (log, shuffled))
    by_user = {name for name in one if name.startswith("labels/86400/") or name == "labels/users"}
    assert {name: one[name] for name in by_user} == {name: other[name] for name in by_user}


def test_panes_keep_few_groups_and_neither_days_nor_users() -> None:
    log = [Seen(3 * DAY + at * MINUTE, f"u{at}", "a", 1) for at in range(0, 600, 2)]
    copy = fed(log, spec_of()).copied()
    for place, table in copy.panes.items():
        assert table.audience is None
        if place == BEYOND:
            assert table.groups is None
        else:
            assert table.groups is not None
            assert table.groups.options.groups == PANE_GROUPS
            assert {row[1] for row in table.groups.relations["sums"].rows()} == {0}
    assert copy.users is not None
    assert list(copy.users.days) == [3]


def test_a_day_that_is_over_is_not_written_again_and_users_only_where_one_is_new() -> None:
    spec = spec_of()
    family = fed([Seen(DAY, "u1", "a", 1), Seen(2 * DAY, "u2", "a", 1)], spec)
    before = {each.name: each.version for each in family.sections()}
    fed([Seen(2 * DAY + 1, "u1", "a", 0)], spec, family=family)
    after = {each.name: each.version for each in family.sections()}
    changed = {name for name, version in after.items() if before.get(name) != version}
    assert changed == {"labels/86400/2", f"labels/60/{2 * DAY // MINUTE}", "labels/meta"}
    fed([Seen(2 * DAY + 2, "u3", "a", 0)], spec, family=family)
    assert {each.name: each.version for each in family.sections()}["labels/users"] != after[
        "labels/users"
    ]


def test_the_oldest_days_of_a_slice_are_summed_as_an_accumulator_does() -> None:
    draw = Random(1)
    log = [
        Seen(
            day * DAY + draw.randrange(DAY), f"u{draw.randrange(20)}", variant, draw.random() < 0.5
        )
        for day in range(MOST_DAYS + 40)
        for variant in "ab"
        if variant == "a" or day % 3 == 0
    ]
    log.sort()
    spec = spec_of()
    family = fed(log, spec)
    copy = family.copied()
    assert copy.users is not None
    kept = sum(len(table.cells) for table in copy.users.days.values())
    assert kept == MOST_DAYS + len({each.time // DAY for each in log if each.variant == "b"})
    assert content(views_of([family])) == expected(log)
    halves = [fed(log[::2], spec), fed(log[1::2], spec)]
    assert content(views_of(halves)) == expected(log)
