"""Windows and lifetime over several partitions are what a plain loop over the events gives."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from streameval.aggregation.folding import FoldingOptions
from streameval.aggregation.time import FINE, HOUR
from streameval.aggregation.views import Views
from tests.aggregation.counting import Counting
from tests.aggregation.logs import MINUTE, TIMES, Log, Logged, counts, fed, logs, spans, spec_of

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


def views_of(fed_logs: list[Log]) -> Views[Counting]:
    views = Views(fed_logs[0].family.spec)
    views.families = [log.family for log in fed_logs]
    return views


@given(partitions, windowed, st.integers(0, TIMES.lateness))
def test_a_window_holds_the_events_of_its_time(
    parts: list[list[Logged]], own: tuple[int, ...], behind: int
) -> None:
    fed_logs = [fed(part, spec_of(own), 9) for part in parts]
    views = views_of(fed_logs)
    clock = max(log.clock or 0 for log in fed_logs) - behind
    for span in own:
        assert counts(views.window(span, clock)) == naive(parts, span, clock)
    assert counts(views.lifetime()) == naive(parts, None, clock)


@given(partitions, spans, st.integers(0, 4))
def test_the_lifetime_holds_every_event_however_labels_fold(
    parts: list[list[Logged]], own: tuple[int, ...], cap: int
) -> None:
    spec = spec_of(own, FoldingOptions(cap=cap))
    together = fed([event for part in parts for event in part], spec)
    apart = views_of([fed(part, spec) for part in parts])
    assert counts(apart.lifetime()) == counts(views_of([together]).lifetime())
    assert apart.folded() == views_of([together]).folded()
    assert apart.seen() == views_of([together]).seen()
    assert apart.folding.state() == together.family.folding.state()


@given(partitions, logs, windowed, st.integers(0, 4))
def test_views_are_never_out_of_date(
    parts: list[list[Logged]], more: list[Logged], own: tuple[int, ...], cap: int
) -> None:
    fed_logs = [fed(part, spec_of(own, FoldingOptions(cap=cap))) for part in parts]
    views = views_of(fed_logs)
    for start in range(0, len(more), 5):
        _read(views, own, fed_logs)
        fed_logs[start % len(fed_logs)].feed(more[start : start + 5])
    assert _read(views, own, fed_logs) == _read(views_of(fed_logs), own, fed_logs)


@given(partitions, windowed)
def test_unchanged_slices_are_the_very_same_objects(
    parts: list[list[Logged]], own: tuple[int, ...]
) -> None:
    fed_logs = [fed(part, spec_of(own)) for part in parts]
    views, clock = views_of(fed_logs), max(log.clock or 0 for log in fed_logs)
    before = [views.window(span, clock) for span in own] + [views.lifetime()]
    kept = [[(each.version, each.events) for _, each in found] for found in before]
    fed_logs[0].feed([(fed_logs[0].clock or 0, ("new", "new"))])
    after = [views.window(span, clock) for span in own] + [views.lifetime()]
    for old, new, content in zip(before, after, kept, strict=True):
        same = dict(new)
        assert [same[labels] is each for labels, each in old] == [True] * len(old)
        assert [(each.version, each.events) for _, each in old] == content


@given(partitions, windowed)
def test_reading_changes_no_byte_of_what_is_kept(
    parts: list[list[Logged]], own: tuple[int, ...]
) -> None:
    fed_logs = [fed(part, spec_of(own)) for part in parts]
    before = [log.saved() for log in fed_logs]
    _read(views_of(fed_logs), own, fed_logs)
    assert [log.saved() for log in fed_logs] == before


def test_the_next_minute_merges_few_blocks_again() -> None:
    own = (5 * MINUTE, HOUR, 6 * HOUR)
    day = [(minute * MINUTE, ("a", "p")) for minute in range(20 * 60)]
    log = fed(day, spec_of(own))
    views = views_of([log])
    _read(views, own, [log])
    log.feed([(20 * HOUR, ("a", "p"))])
    before = Counting.merged
    _read(views, own, [log])
    assert Counting.merged - before < 90


def _read(
    views: Views[Counting], own: tuple[int, ...], fed_logs: list[Log]
) -> list[dict[tuple[str, ...], int]]:
    clock = max(log.clock or 0 for log in fed_logs)
    windows = [dict(counts(views.window(span, clock))) for span in own]
    return [*windows, dict(counts(views.lifetime()))]
