"""Windows and lifetimes over several partitions equal a plain loop over the events."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from streameval.windows.family import FamilySpec
from streameval.windows.labels import FoldingOptions
from streameval.windows.times import FINE, HOUR
from streameval.windows.views import FamilyView
from tests.effort import dear
from tests.windows.logs import (
    MINUTE,
    TIMES,
    Log,
    Logged,
    counts,
    fed,
    logs,
    restored,
    show,
    spans,
    spec_of,
    specs,
    views_of,
)

partitions = st.lists(logs, min_size=1, max_size=3)
windowed = specs.filter(lambda spec: bool(spec.spans))


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


@given(partitions, spans.filter(bool), st.integers(0, TIMES.lateness))
def test_a_window_holds_the_events_of_its_time(
    parts: list[list[Logged]], own: tuple[int, ...], behind: int
) -> None:
    fed_logs = [fed(part, spec, 9) for spec in [spec_of(own)] for part in parts]
    views = views_of(fed_logs)
    clock = _clock(fed_logs) - behind
    for span in own:
        assert counts(views.window(span, clock), views.spec) == naive(parts, span, clock)
    assert counts(views.lifetime(), views.spec) == naive(parts, None, clock)


@given(partitions, spans, st.integers(0, 4))
def test_the_lifetime_has_every_event_for_any_folding(
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


@dear()
@given(partitions, windowed)
def test_an_unchanged_table_is_the_same_object_and_reading_changes_nothing(
    parts: list[list[Logged]], spec: FamilySpec
) -> None:
    fed_logs = [fed(part, spec) for part in parts]
    kept = [log.saved() for log in fed_logs]
    views, clock = views_of(fed_logs), _clock(fed_logs)
    before = [views.window(span, clock) for span in spec.spans] + [views.lifetime()]
    found = [counts(table, spec) for table in before]
    assert [log.saved() for log in fed_logs] == kept
    show(views, fed_logs)
    again = [views.window(span, clock) for span in spec.spans] + [views.lifetime()]
    assert [new is old for new, old in zip(again, before, strict=True)] == [True] * len(before)
    fed_logs[0].feed([(fed_logs[0].clock or 0, ("new", "new"))])
    show(views, fed_logs)
    for span in spec.spans:
        views.window(span, clock)
    assert [counts(table, spec) for table in before] == found


def _clock(fed_logs: list[Log]) -> int:
    return max(log.clock or 0 for log in fed_logs)


def _read(views: FamilyView, fed_logs: list[Log]) -> list[bytes]:
    """All tables that can be read, in the order of the slices."""
    clock, spec = _clock(fed_logs), views.spec
    tables = [*(views.window(span, clock) for span in spec.spans), views.lifetime()]
    return [b"".join(table.dump(views.slices(table).tolist())) for table in tables]
