"""The users of a family: sums by event day, and each user once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from streameval import Accumulator
from streameval.accumulator.plan import PANE_GROUPS
from streameval.accumulator.readings import audiences
from streameval.statistics.groups import MOST_DAYS
from streameval.windows.family import FamilySpec
from streameval.windows.labels import FoldingOptions
from streameval.windows.times import DAY, PAST_PANE
from streameval.windows.views import FamilyView
from tests.windows.logs import (
    BY_USER,
    HOURS,
    METRICS,
    MINUTE,
    Logged,
    events,
    fed,
    logs,
    spec_of,
    views_of,
)

Content = dict[tuple[str, ...], list[object]]
"""Sums by user group of each slice over the lifetime, and its users."""


def _spec(cap: int = 50) -> FamilySpec:
    return spec_of(HOURS, FoldingOptions(cap=cap), BY_USER)


def _content(views: FamilyView) -> Content:
    table = views.lifetime()
    cells = views.slices(table)
    assert table.groups is not None
    found: Content = {}
    for at, cell in enumerate(cells.tolist()):
        sums = [table.groups.of(metric, cells)[at] for metric in METRICS]
        audience = audiences(table, cells)[at]
        found[views.labels(cell)] = [
            [[each.tolist() for each in one] for one in sums],
            [audience.hashes.tolist(), *audience[1:]],
        ]
    return found


def _expected(log: Sequence[Logged], views: FamilyView) -> Content:
    """The content of an accumulator for each slice, with labels folded as in the view."""
    kept = [each.kept for each in views.folding.values]
    apart: defaultdict[tuple[str, ...], list[Logged]] = defaultdict(list)
    for time, (variant, country) in log:
        pairs = zip((country, variant), kept, strict=True)
        apart[tuple(v if v in known else "__other__" for v, known in pairs)].append(
            (time, (variant, country))
        )
    found: Content = {}
    for labels, own in apart.items():
        accumulator = Accumulator(*METRICS, intervals=BY_USER)
        accumulator.update_many(events(own))
        sums = [accumulator.groups(metric) for metric in METRICS]
        audience = accumulator.audience
        assert audience is not None
        found[labels] = [
            [[each.tolist() for each in one or ()] for one in sums],
            [audience.hashes.tolist(), *audience[1:]],
        ]
    return found


@given(st.lists(logs, min_size=1, max_size=3), st.integers(1, 12), st.integers(0, 4))
def test_the_lifetime_of_partitions_equals_accumulators_for_any_folding(
    parts: list[list[Logged]], step: int, cap: int
) -> None:
    spec = _spec(cap)
    views = views_of([fed(part, spec, step) for part in parts])
    assert _content(views) == _expected([each for part in parts for each in part], views)


def test_panes_keep_few_groups_and_neither_days_nor_users() -> None:
    log = [(3 * DAY + at * MINUTE, ("a", "p")) for at in range(0, 600, 2)]
    copy = fed(log, _spec()).family.copied()
    for place, table in copy.panes.items():
        assert table.audience is None
        if place == PAST_PANE:
            assert table.groups is None
        else:
            assert table.groups is not None
            assert table.groups.options.groups == PANE_GROUPS
            assert {row[1] for row in table.groups.relations["sums"].rows()} == {0}
    assert copy.users is not None
    assert list(copy.users.days) == [3]


def test_a_past_day_is_not_written_again_and_users_only_if_one_is_new() -> None:
    # The user repeats every four microseconds.
    log = fed([(DAY, ("a", "p")), (2 * DAY, ("a", "p"))], _spec())
    before = log.versions()
    log.feed([(2 * DAY + 4, ("a", "p"))])
    after = log.versions()
    changed = {name for name, version in after.items() if before.get(name) != version}
    assert changed == {"labels/86400/2", f"labels/60/{2 * DAY // MINUTE}", "labels/meta"}
    log.feed([(2 * DAY + 5, ("a", "p"))])
    assert log.versions()["labels/users"] != after["labels/users"]


def test_the_oldest_days_of_a_slice_are_summed_as_an_accumulator_does() -> None:
    draw = Random(1)
    log: list[Logged] = [
        (day * DAY + draw.randrange(DAY), (variant, "p"))
        for day in range(MOST_DAYS + 40)
        for variant in "ab"
        if variant == "a" or day % 3 == 0
    ]
    log.sort()
    spec = _spec()
    whole = fed(log, spec, 10)
    copy = whole.family.copied()
    assert copy.users is not None
    kept = sum(len(table.cells) for table in copy.users.days.values())
    assert kept == MOST_DAYS + len({time // DAY for time, (variant, _) in log if variant == "b"})
    for logs_apart in ([whole], [fed(log[::2], spec, 10), fed(log[1::2], spec, 10)]):
        views = views_of(logs_apart)
        assert _content(views) == _expected(log, views)
