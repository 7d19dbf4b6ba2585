"""Windows and lifetime over several partitions are what a plain loop over the events gives."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from streameval.windows.labels import FoldingOptions
from streameval.windows.times import FINE, HOUR
from streameval.windows.views import Views
from tests.windows.logs import (
    MINUTE,
    TIMES,
    Log,
    Logged,
    counts,
    fed,
    logs,
    show,
    spans,
    spec_of,
    views_of,
)

partitions = st.lists(logs, min_size=1, max_size=3)
windowed = spans.filter(bool)


def naive(parts: list[list[Logged]], span: int | None, clock: int) -> Counter[tuple[str, ...]]:
    """The textbook: every event whose pane, or hour, ends less than the span before the clock.

    Panes that begin after it are in no window.
    """
    size = HOUR if span is not None and span > FINE else MINUTE
    found: Counter[tuple[str, ...]] = Counter()
    for time, (variant, country) in (event for part in parts for event in part):
        ended = span is not None and time // size * size + size <= clock - span
        if span is None or not (ended or time // MINUTE * MINUTE > clock):
            found[country, variant] += 1
    return found


@given(partitions, windowed, st.integers(0, TIMES.lateness))
def test_a_window_holds_the_events_of_its_time(
    parts: list[list[Logged]], own: tuple[int, ...], behind: int
) -> None:
    spec = spec_of(own)
    fed_logs = [fed(part, spec, 9) for part in parts]
    views = views_of(fed_logs)
    clock = max(log.clock or 0 for log in fed_logs) - behind
    for span in own:
        assert counts(views.window(span, clock), views.spec) == naive(parts, span, clock)
    assert counts(views.lifetime(), views.spec) == naive(parts, None, clock)


@given(partitions, spans, st.integers(0, 4))
def test_the_lifetime_holds_every_event_however_labels_fold(
    parts: list[list[Logged]], own: tuple[int, ...], cap: int
) -> None:
    spec = spec_of(own, FoldingOptions(cap=cap))
    together = fed([event for part in parts for event in part], spec)
    apart = views_of([fed(part, spec) for part in parts])
    alone = views_of([together])
    assert counts(apart.lifetime(), spec) == counts(alone.lifetime(), spec)
    assert apart.folded() == alone.folded()
    assert apart.latest() == alone.latest()
    assert apart.folding.state() == together.family.folding.state()


@given(partitions, logs, windowed, st.integers(0, 4))
def test_views_are_never_out_of_date(
    parts: list[list[Logged]], more: list[Logged], own: tuple[int, ...], cap: int
) -> None:
    spec = spec_of(own, FoldingOptions(cap=cap))
    fed_logs = [fed(part, spec) for part in parts]
    views = views_of(fed_logs)
    for start in range(0, len(more), 5):
        show(views, fed_logs)
        _read(views, own, fed_logs)
        fed_logs[start % len(fed_logs)].feed(more[start : start + 5])
    show(views, fed_logs)
    assert _read(views, own, fed_logs) == _read(views_of(fed_logs), own, fed_logs)


@given(partitions, windowed)
def test_what_is_unchanged_is_the_very_same_table_and_what_was_read_stays_as_it_is(
    parts: list[list[Logged]], own: tuple[int, ...]
) -> None:
    spec = spec_of(own)
    fed_logs = [fed(part, spec) for part in parts]
    views, clock = views_of(fed_logs), max(log.clock or 0 for log in fed_logs)
    before = [views.window(span, clock) for span in own] + [views.lifetime()]
    kept = [counts(table, views.spec) for table in before]
    show(views, fed_logs)
    again = [views.window(span, clock) for span in own] + [views.lifetime()]
    assert [new is old for new, old in zip(again, before, strict=True)] == [True] * len(before)
    fed_logs[0].feed([(fed_logs[0].clock or 0, ("new", "new"))])
    show(views, fed_logs)
    for span in own:
        views.window(span, clock)
    assert [counts(table, views.spec) for table in before] == kept


@given(partitions, windowed)
def test_reading_changes_no_byte_of_what_is_kept(
    parts: list[list[Logged]], own: tuple[int, ...]
) -> None:
    spec = spec_of(own)
    fed_logs = [fed(part, spec) for part in parts]
    before = [log.saved() for log in fed_logs]
    _read(views_of(fed_logs), own, fed_logs)
    assert [log.saved() for log in fed_logs] == before


def _read(
    views: Views, own: tuple[int, ...], fed_logs: list[Log]
) -> list[dict[tuple[str, ...], int]]:
    clock = max(log.clock or 0 for log in fed_logs)
    windows = [dict(counts(views.window(span, clock), views.spec)) for span in own]
    return [*windows, dict(counts(views.lifetime(), views.spec))]
