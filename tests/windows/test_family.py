"""A family counts every event once, and its content depends on the log alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval import Accumulator, Intervals
from streameval.accumulator.kinds.groups import PANE_GROUPS, groups_of
from streameval.accumulator.kinds.users import audiences, distinct_users
from streameval.engine.windows.family import FamilySpec, LoggedEvents
from streameval.engine.windows.labels import LabelCapOptions
from streameval.engine.windows.times import DAY, FINE, HOUR, PAST_PANE, Pane
from streameval.engine.windows.views import FamilyView
from streameval.events import columns_of
from streameval.events.errors import DamagedStateError, UnlikeStateError
from streameval.statistics.groups import MOST_DAYS
from tests.effort import few_examples
from tests.present import present
from tests.windows.logs import (
    BY_USER,
    HOURS,
    METRICS,
    MINUTE,
    TIMES,
    Log,
    Logged,
    counts,
    events,
    fed,
    foldings,
    logs,
    restored,
    section_bytes,
    show,
    spans,
    spec_of,
    specs,
    views_of,
)


@given(logs, logs, spans, foldings, st.sampled_from([None, BY_USER]), st.integers(1, 40))
def test_any_batches_give_the_same_bytes_with_any_other_family(
    log: list[Logged],
    other: list[Logged],
    lengths: tuple[int, ...],
    label_caps: LabelCapOptions,
    intervals: Intervals | None,
    step: int,
) -> None:
    def spec() -> FamilySpec:
        return spec_of(lengths, label_caps, intervals)

    together = spec()
    first, second = Log(together), Log(together)
    for start in range(0, 40, step):
        first.feed(log[start : start + step])
        second.feed(other[start : start + step])
    assert first.section_bytes() == fed(log, spec()).section_bytes()
    assert second.section_bytes() == fed(other, spec()).section_bytes()


@given(logs, spans, st.integers(0, 4), st.randoms())
def test_any_order_with_the_same_clock_gives_the_same_bytes(
    log: list[Logged], lengths: tuple[int, ...], cap: int, draw: Random
) -> None:
    spec = spec_of(lengths, LabelCapOptions(cap=cap), BY_USER)
    shuffled = list(log)
    draw.shuffle(shuffled)
    assert fed(shuffled, spec, 3).section_bytes() == fed(log, spec).section_bytes()


@given(logs, specs)
def test_every_event_is_in_exactly_one_pane(log: list[Logged], spec: FamilySpec) -> None:
    family = fed(log, spec, 7).family
    copy = family.copied()
    held = [sum(counts(table, family.spec).values()) for table in copy.panes.values()]
    assert sum(held) == len(log) == sum(copy.activity.events.values())


@given(logs, logs, specs)
def test_a_restored_family_continues_to_the_same_bytes(
    before: list[Logged], after: list[Logged], spec: FamilySpec
) -> None:
    lived = fed(before, spec, 7)
    again = restored(lived)
    assert again.section_bytes() == lived.section_bytes()
    lived.feed(after)
    again.feed(after)
    assert again.section_bytes() == lived.section_bytes()


@given(logs, logs, specs)
def test_a_section_of_the_same_version_has_the_same_content(
    before: list[Logged], after: list[Logged], spec: FamilySpec
) -> None:
    log = fed(before, spec, 7)
    versions, content = log.versions(), log.section_bytes()
    log.feed(after)
    contents = log.section_bytes()
    same = [name for name, version in log.versions().items() if version == versions.get(name)]
    assert [contents[name] for name in same] == [content[name] for name in same]


def test_a_copied_section_stays_as_it_was() -> None:
    log = fed([(0, ("a", "p"))], spec_of(HOURS))
    dumps = {section.name: section.content() for section in log.family.sections()}
    before = log.section_bytes()
    log.feed([(0, ("a", "p")), (1, ("b", "q"))])
    assert {name: b"".join(dump()) for name, dump in dumps.items()} == before


@pytest.mark.parametrize("lengths", [(), (MINUTE,), HOURS])
def test_without_event_time_every_event_is_in_the_lifetime(lengths: tuple[int, ...]) -> None:
    counted = Log(spec_of(lengths))
    family, log = counted.family, [(0, ("a", "p")), (0, ("b", "p"))]
    dimensions = [labels for _, labels in log]
    counted.count(LoggedEvents(columns_of(events(log)), dimensions, None, None, None))
    copy = family.copied()
    assert list(copy.panes) == [PAST_PANE]
    assert counts(copy.panes[PAST_PANE], family.spec) == {("p", "a"): 1, ("p", "b"): 1}
    assert [*copy.activity.latest.values()] == [None, None]


def test_panes_are_added_to_hours_and_hours_to_the_past() -> None:
    log = fed([(0, ("a", "p")), (59 * MINUTE, ("a", "p"))], spec_of(HOURS))
    assert _panes(log) == ["labels/60/0", "labels/60/59", "labels/past"]
    log.feed([(2 * HOUR + 3 * MINUTE, ("a", "p"))])
    assert _panes(log) == ["labels/3600/0", "labels/60/123", "labels/60/59", "labels/past"]
    log.feed([(4 * HOUR, ("a", "p"))])
    assert _panes(log) == ["labels/3600/0", "labels/60/123", "labels/60/240", "labels/past"]
    log.feed([(0, ("b", "p"))])
    assert len(log.family.copied().panes[Pane(HOUR, 0)].cells) == 2
    log.feed([(7 * HOUR + 2 * MINUTE, ("a", "p"))])
    assert _panes(log) == ["labels/3600/2", "labels/3600/4", "labels/60/422", "labels/past"]


def test_a_folded_label_value_takes_its_history_along() -> None:
    log = fed([(0, ("a", letter)) for letter in "pqrst"], spec_of(HOURS))
    capped, _ = Log(spec_of(HOURS, LabelCapOptions(cap=1))).family.restore(log.section_bytes())
    fresh = fed([(0, ("a", letter)) for letter in "pqrst"], spec_of(HOURS, LabelCapOptions(cap=1)))
    assert section_bytes(capped) == fresh.section_bytes()
    assert views_of([fresh]).folded_events() == {"country": 4, "variant": 0}


def test_damaged_sections_are_refused_and_nothing_is_loaded() -> None:
    good = fed([(0, ("a", "p")), (MINUTE, ("b", "q"))], spec_of(HOURS)).section_bytes()
    family = fed([(5, ("c", "q"))], spec_of(HOURS)).family
    before = section_bytes(family)
    for name, data in good.items():
        for bad in (data[:-1], data + b"\0", data[:3], b""):
            if bad or name == "labels/meta":
                with pytest.raises(DamagedStateError):
                    family.restore(good | {name: bad})
    for name in ("labels/meta", "labels/past"):
        with pytest.raises(DamagedStateError, match=name):
            family.restore({key: data for key, data in good.items() if key != name})
    with pytest.raises(DamagedStateError, match="labels/60/x"):
        family.restore(good | {"labels/60/x": b""})
    assert section_bytes(family) == before


def test_panes_of_another_size_are_refused() -> None:
    good = fed([(0, ("a", "p"))], spec_of(HOURS)).section_bytes()
    with pytest.raises(UnlikeStateError, match="panes: this program has"):
        Log(spec_of(HOURS)).family.restore(good | {"labels/30/7": b""})


def test_sections_of_other_families_are_ignored() -> None:
    good = fed([(0, ("a", "p"))], spec_of(HOURS)).section_bytes()
    family, _ = Log(spec_of(HOURS)).family.restore(good | {"country/past": b"?", "meta": b"?"})
    assert section_bytes(family) == good


def _panes(log: Log) -> list[str]:
    return sorted(name for name in log.section_bytes() if not name.endswith("/meta"))


partitions = st.lists(logs, min_size=1, max_size=3)
windowed = specs.filter(lambda spec: bool(spec.spans))


def naive(parts: list[list[Logged]], span: int | None, clock: int) -> Counter[tuple[str, ...]]:
    """The textbook: every event whose pane, or hour, ends less than the span before the clock.

    Panes that begin after it are in no window.
    """
    size = HOUR if span is not None and span > FINE else MINUTE
    counts_: Counter[tuple[str, ...]] = Counter()
    for time, (variant, country) in (event for part in parts for event in part):
        ended = span is not None and time // size * size + size <= clock - span
        if span is None or not (ended or time // MINUTE * MINUTE > clock):
            counts_[country, variant] += 1
    return counts_


@given(partitions, spans.filter(bool), st.integers(0, TIMES.lateness))
def test_a_window_holds_the_events_of_its_time(
    parts: list[list[Logged]], lengths: tuple[int, ...], behind: int
) -> None:
    fed_logs = [fed(part, spec, 9) for spec in [spec_of(lengths)] for part in parts]
    views = views_of(fed_logs)
    clock = _clock(fed_logs) - behind
    for span in lengths:
        assert counts(views.window(span, clock), views.spec) == naive(parts, span, clock)
    assert counts(views.lifetime(), views.spec) == naive(parts, None, clock)


@given(partitions, spans, st.integers(0, 4))
def test_the_lifetime_has_every_event_for_any_folding(
    parts: list[list[Logged]], lengths: tuple[int, ...], cap: int
) -> None:
    spec = spec_of(lengths, LabelCapOptions(cap=cap))
    together = fed([event for part in parts for event in part], spec)
    apart = views_of([fed(part, spec) for part in parts])
    alone = views_of([together])
    assert counts(apart.lifetime(), spec) == counts(alone.lifetime(), spec)
    assert apart.folded_events() == alone.folded_events()
    assert apart.latest() == alone.latest()
    assert apart.label_caps.state() == together.family.label_caps.state()


@given(partitions, logs, specs)
def test_views_are_never_out_of_date(
    parts: list[list[Logged]], more: list[Logged], spec: FamilySpec
) -> None:
    fed_logs = [fed(part, spec) for part in parts]
    views = views_of(fed_logs)
    for start in range(0, len(more), 5):
        show(views, fed_logs)
        _read(views, fed_logs)
        fed_logs[start % len(fed_logs)].feed(more[start : start + 5])
    show(views, fed_logs)
    anew = [restored(log) for log in fed_logs]
    assert _read(views, fed_logs) == _read(views_of(anew), anew)


@few_examples()
@given(partitions, windowed)
def test_an_unchanged_table_is_the_same_object_and_reading_changes_nothing(
    parts: list[list[Logged]], spec: FamilySpec
) -> None:
    fed_logs = [fed(part, spec) for part in parts]
    kept = [log.section_bytes() for log in fed_logs]
    views, clock = views_of(fed_logs), _clock(fed_logs)
    before = [views.window(span, clock) for span in spec.spans] + [views.lifetime()]
    counts_before = [counts(table, spec) for table in before]
    assert [log.section_bytes() for log in fed_logs] == kept
    show(views, fed_logs)
    again = [views.window(span, clock) for span in spec.spans] + [views.lifetime()]
    assert [new is old for new, old in zip(again, before, strict=True)] == [True] * len(before)
    fed_logs[0].feed([(fed_logs[0].clock or 0, ("new", "new"))])
    show(views, fed_logs)
    for span in spec.spans:
        views.window(span, clock)
    assert [counts(table, spec) for table in before] == counts_before


def _clock(fed_logs: list[Log]) -> int:
    return max(log.clock or 0 for log in fed_logs)


def _read(views: FamilyView, fed_logs: list[Log]) -> list[bytes]:
    """All tables that can be read, in the order of the slices."""
    clock, spec = _clock(fed_logs), views.spec
    tables = [*(views.window(span, clock) for span in spec.spans), views.lifetime()]
    return [b"".join(table.dump(views.slices(table).tolist())) for table in tables]


Content = dict[tuple[str, ...], list[object]]
"""Sums by user group of each slice over the lifetime, and its users."""


def _spec(cap: int = 50) -> FamilySpec:
    return spec_of(HOURS, LabelCapOptions(cap=cap), BY_USER)


def _content(views: FamilyView) -> Content:
    table = views.lifetime()
    cells = views.slices(table)
    groups = present(groups_of(table))
    content: Content = {}
    for at, cell in enumerate(cells.tolist()):
        sums = [groups.of(metric, cells)[at] for metric in METRICS]
        audience = audiences(table, cells)[at]
        content[views.labels(cell)] = [
            [[column.tolist() for column in user_sums] for user_sums in sums],
            [np.asarray(values).tolist() for values in audience],
        ]
    return content


def _expected(log: Sequence[Logged], views: FamilyView) -> Content:
    """The content of an accumulator for each slice, with labels folded as in the view."""
    retained = [value.retained for value in views.label_caps.values]
    apart: defaultdict[tuple[str, ...], list[Logged]] = defaultdict(list)
    for time, (variant, country) in log:
        pairs = zip((country, variant), retained, strict=True)
        apart[tuple(v if v in kept_values else "__other__" for v, kept_values in pairs)].append(
            (time, (variant, country))
        )
    content: Content = {}
    for labels, logged in apart.items():
        accumulator = Accumulator(*METRICS, intervals=BY_USER)
        accumulator.update_many(events(logged))
        sums = [accumulator.groups(metric) for metric in METRICS]
        audience = accumulator.audience
        assert audience is not None
        content[labels] = [
            [[column.tolist() for column in user_sums or ()] for user_sums in sums],
            [np.asarray(values).tolist() for values in audience],
        ]
    return content


@given(st.lists(logs, min_size=1, max_size=3), st.integers(1, 12), st.integers(0, 4))
def test_the_lifetime_of_partitions_equals_accumulators_for_any_folding(
    parts: list[list[Logged]], step: int, cap: int
) -> None:
    spec = _spec(cap)
    views = views_of([fed(part, spec, step) for part in parts])
    assert _content(views) == _expected([logged for part in parts for logged in part], views)


def test_panes_keep_few_groups_and_neither_days_nor_users() -> None:
    log = [(3 * DAY + at * MINUTE, ("a", "p")) for at in range(0, 600, 2)]
    copy = fed(log, _spec()).family.copied()
    for place, table in copy.panes.items():
        assert distinct_users(table) is None
        if place == PAST_PANE:
            assert groups_of(table) is None
        else:
            groups = present(groups_of(table))
            assert groups.options.groups == PANE_GROUPS
            assert {row[1] for row in groups.relations["sums"].rows()} == {0}
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
    total = fed(log, spec, 10)
    copy = total.family.copied()
    assert copy.users is not None
    retained = sum(len(table.cells) for table in copy.users.days.values())
    assert retained == MOST_DAYS + len(
        {time // DAY for time, (variant, _) in log if variant == "b"}
    )
    for logs_apart in ([total], [fed(log[::2], spec, 10), fed(log[1::2], spec, 10)]):
        views = views_of(logs_apart)
        assert _content(views) == _expected(log, views)


@pytest.mark.parametrize(("minutes", "step"), [(190, 2), (720, 720)])
def test_a_closed_pane_keeps_few_parts(minutes: int, step: int) -> None:
    """Each part is an array for every column; readers copy them after each poll."""
    log: list[Logged] = [(minute * MINUTE, ("a", "p")) for minute in range(minutes)]
    feeding = Log(spec_of(HOURS, intervals=BY_USER))
    for start in range(0, minutes, step):
        feeding.feed(log[start : start + step])
        feeding.family.copied()
    feeding.feed([(minutes * MINUTE, ("a", "p"))])
    copy = feeding.family.copied()
    assert copy.users is not None
    assert sum(pane.size == HOUR for pane in copy.panes) >= 1
    for pane, table in copy.panes.items():
        age = FINE + TIMES.lateness if pane.size == HOUR else 0
        if pane.start + pane.size + age <= minutes * MINUTE:
            assert len(table.events.parts) <= 8, pane
