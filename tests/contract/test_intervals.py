"""Group sums equal those of the raw lists, bit for bit, for every metric that has them."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import numpy as np
import pytest
from msgspec.structs import replace

from streameval import Accumulator, Event, Intervals
from streameval.catalogue import catalogue, parse
from streameval.events.errors import UnlikeStateError
from streameval.inference.interval_formulas import interval
from streameval.statistics.groups import MOST_DAYS, Groups
from streameval.statistics.intervals import GroupSums
from tests.contract import laws
from tests.contract.metric_cases import CASES, NAMES, a_text_of_each, inputs, stream
from tests.effort import sampled, thorough
from tests.metrics.preparation import RefusedError, user_hash
from tests.present import present
from tests.strategies import texts_of

GROUPS: Final = 16
KEPT = Intervals(groups=GROUPS)
ALL = a_text_of_each()
EVENTS = stream(120 if thorough() else 60)
DAY = 86_400 * 1_000_000
UNGROUPED_ALWAYS = {"auc", "gini", "hits", "rmse", "gm_map", "item_coverage", "gauc"}


def made(texts: Sequence[str], events: Sequence[Event], groups: int = GROUPS) -> Accumulator:
    intervals = Intervals(groups=groups)  # type: ignore[arg-type]  # one of those allowed
    return laws.made(texts, events, intervals)


@pytest.mark.parametrize(("name", "k"), sampled(CASES, 12))
def test_the_sums_of_each_group_are_those_of_its_lists(name: str, k: int | None) -> None:
    texts = [
        text
        for text in texts_of(name, k)
        if parse(text).has_interval and not parse(text).is_per_user
    ]
    if not texts:
        return
    accumulator = laws.counted(texts, EVENTS, intervals=KEPT)
    lists: dict[int, list[Event]] = defaultdict(list)
    for event in EVENTS:
        if event.user is not None:
            lists[user_hash(event.user) % GROUPS].append(event)
    for text in texts:
        metric, sums = parse(text), present(accumulator.groups(text))
        near = (
            1e-9 if not metric.values.get("digits") else 1.1 * 10.0 ** -int(metric.values["digits"])
        )
        for group in range(GROUPS):
            numerator = float(sums.numerators[:, group].sum())
            denominator = float(sums.denominators[:, group].sum())
            try:
                expected = laws.by_its_twin(metric, lists[group], inputs(EVENTS).of_twins)
            except RefusedError:
                continue
            if math.isfinite(expected):
                ratio = numerator / denominator
                assert math.isclose(ratio, expected, rel_tol=1e-9, abs_tol=near), (text, group)
            elif denominator:
                assert laws.value(accumulator.read(text)) is None or "nan" in metric.values.values()


@pytest.mark.parametrize("name", NAMES)
def test_the_sums_of_all_groups_give_the_value(name: str) -> None:
    texts = [text for text in ALL if parse(text).name == name]
    drawn = stream(unshown=True) if name == "overlap" else EVENTS
    events = [replace(event, user=event.user or "nobody") for event in drawn]
    accumulator = laws.counted(texts, events, intervals=KEPT)
    for text in texts:
        sums, reading = accumulator.groups(text), accumulator.read(text)
        if sums is None:
            assert reading.interval is None
            assert reading.no_interval
            assert accumulator.interval(text) is None
            continue
        below = reading.count if reading.weight is None else reading.weight
        assert math.isclose(sums.denominators.sum(), below, rel_tol=1e-9)
        total = float(sums.numerators.sum()) / below
        assert math.isclose(total, reading.value, rel_tol=1e-9, abs_tol=3e-10), text


def test_a_metric_that_is_not_a_mean_has_no_sums() -> None:
    without = {name for name in catalogue() if not parse(name).has_interval}
    assert without >= UNGROUPED_ALWAYS
    assert not parse("ndcg(statistic=median)@5").has_interval


def test_a_state_without_sums_starts_them_empty() -> None:
    before = Accumulator("ndcg@5", "ctr")
    before.update_many(EVENTS)
    later = made(["ndcg@5", "ctr"], EVENTS)
    assert later.adopt(b"".join(before.dump())) == {f"groups:{GROUPS}", "users"}
    assert later.read("ctr").value == before.read("ctr").value
    sums = present(later.groups("ctr"))
    assert not sums.denominators.size
    with pytest.raises(UnlikeStateError):
        later.load_state_dict(before.state_dict())


def test_an_added_metric_starts_empty_and_the_others_continue() -> None:
    before, both = made(["dcg@5", "mrr"], EVENTS), made(["ctr@5", "dcg@5", "mrr"], EVENTS)
    before.update_many(EVENTS)
    both.adopt(b"".join(before.dump()))
    both.update_many(EVENTS[:10])
    before.update_many(EVENTS[:10])
    new = made(["ctr@5"], EVENTS)
    new.update_many(EVENTS[:10])
    for text, like in (("dcg@5", before), ("mrr", before), ("ctr@5", new)):
        assert _same(both.groups(text), like.groups(text)), text
    fewer = made(["mrr"], EVENTS)
    fewer.adopt(b"".join(both.dump()))
    assert _same(fewer.groups("mrr"), both.groups("mrr"))
    again = made(["mrr"], EVENTS)
    again.update_many([*EVENTS, *EVENTS[:10]])
    assert laws.bits(again) == laws.bits(fewer)


def _same(left: GroupSums | None, right: GroupSums | None) -> bool:
    both = zip(present(left), present(right), strict=True)
    return all(np.array_equal(*columns) for columns in both)


_FIRST_DAY = 20_000


def test_sums_are_kept_by_day_and_the_oldest_days_are_merged() -> None:
    days = [*range(100), 50, 3, -2]
    order = random.Random(5).sample(days, len(days))
    tables = []
    for accumulator_ in (days, order):
        accumulator = made(["hit_rate@1"], ())
        for at, day in enumerate(accumulator_):
            accumulator.update(["a"], ["a"], user=f"u{day}", ts=(_FIRST_DAY + day) * DAY + 5)
            if at % 9 == 0:
                accumulator.read("hit_rate@1")
        sums = present(accumulator.groups("hit_rate@1"))
        tables.append(sums)
    assert _same(*tables)
    kept = range(_FIRST_DAY + 100 - MOST_DAYS, _FIRST_DAY + 100)
    assert tables[0].days.tolist() == list(kept)
    assert tables[0].denominators.sum(axis=1).tolist()[:2] == [10 + 3, 1]
    assert tables[0].denominators.sum() == len(days)


def test_days_that_wait_to_be_summed_may_be_merged_days() -> None:
    """Whoever subtracts a slice that merged its oldest days gets days that are wrong."""
    for days in (MOST_DAYS - 1, MOST_DAYS):
        accumulator = made(["hit_rate@1"], ())
        shown = Event(recommendations=["a"], interactions=["a"], user="u")
        times = [(_FIRST_DAY + day) * DAY for day in range(days)]
        accumulator.update_many([replace(shown, ts=time) for time in times])
        (groups,) = (
            statistic
            for statistic in accumulator.table.statistics.values()
            if isinstance(statistic, Groups)
        )
        assert groups.reduced == (days == MOST_DAYS)


def _traffic(users: int, lists: int, *, clicks: bool = True) -> list[Event]:
    draw = random.Random(1)
    return [
        Event(
            recommendations=["a", "b", "c"],
            interactions=[draw.choice("abc")] if clicks and draw.random() < 0.3 else [],
            user=f"u{draw.randrange(users)}" if users else None,
        )
        for _ in range(lists)
    ]


@pytest.mark.parametrize(
    ("users", "lists", "clicks", "word"),
    [
        (1, 1_000, True, "Too few users"),
        (5, 1_000, True, "Too few users"),
        (0, 1_000, True, "No list names its user"),
        (500, 1_000, False, "not above 0"),
        (500, 0, True, "no finite value"),
    ],
)
def test_without_users_or_clicks_there_is_no_interval(
    users: int, lists: int, word: str, *, clicks: bool
) -> None:
    accumulator = made(["ctr", "ndcg@3"], (), groups=256)
    accumulator.update_many(_traffic(users, lists, clicks=clicks))
    reading = accumulator.read("ctr")
    assert reading.interval is None
    assert word in str(reading.no_interval)
    assert accumulator.interval("ctr", "fixed") is None


def test_readings_carry_the_interval_of_their_sums() -> None:
    accumulator = made(["ctr", "ndcg@3"], (), groups=256)
    accumulator.update_many(_traffic(3_000, 9_000))
    for text in ("ctr", "ndcg@3"):
        reading, sums = accumulator.read(text), present(accumulator.groups(text))
        anytime, fixed = present(reading.interval), present(accumulator.interval(text, "fixed"))
        assert anytime == interval(sums, Intervals(), "anytime", bounds=(0.0, 1.0))
        assert anytime.low < reading.value < anytime.high
        assert fixed == interval(sums, Intervals(), "fixed")
        assert anytime.low < fixed.low < fixed.high < anytime.high
        assert reading.no_interval is None


def test_without_intervals_nothing_is_kept_by_user() -> None:
    accumulator = Accumulator("ctr")
    accumulator.update_many(_traffic(500, 1_000))
    reading = accumulator.read("ctr")
    assert (reading.interval, reading.no_interval) == (None, None)
    intervals = accumulator.interval("ctr"), accumulator.groups("ctr"), accumulator.audience
    assert intervals == (None, None, None)


def test_a_cutoff_that_was_not_named_has_a_value_but_no_interval() -> None:
    accumulator = made(["recall@5"], ())
    accumulator.update_many(_traffic(500, 1_000))
    reading = accumulator.read("recall@3")
    assert reading.defined
    assert "not configured from the start" in str(reading.no_interval)


def test_a_list_without_a_user_is_grouped_by_its_event() -> None:
    events = [Event(recommendations=["a"], interactions=["a"], event_id=f"e{n}") for n in range(9)]
    events.append(Event(recommendations=["a"], interactions=["a"]))
    accumulator = made(["hit_rate"], ())
    accumulator.update_many(events)
    sums, audience = present(accumulator.groups("hit_rate")), present(accumulator.audience)
    expected = np.bincount([user_hash(f"e{n}") % GROUPS for n in range(9)], minlength=GROUPS)
    assert sums.denominators.tolist() == [expected.tolist()]
    assert (audience.users, audience.lists, audience.anonymous) == (0, 10, 10)


@pytest.mark.parametrize(
    ("users", "events", "reason"),
    [
        (0, 1_000, "No list names its user"),
        (970, 1_000, "3 % of the lists do not name their user"),
        (980, 1_000, None),
        (970, 0, "Only 97 % of the lists are counted by user"),
        (980, 0, None),
    ],
)
def test_an_interval_needs_the_users_of_nearly_all_lists(
    users: int, events: int, reason: str | None
) -> None:
    """An interval of some of the lists need not even contain the value of all."""
    accumulator = Accumulator("hit_rate", intervals=Intervals())
    accumulator.update_many(
        Event(
            recommendations=["a"],
            interactions=["a"] if n % 3 else [],
            user=f"u{n}" if n < users else None,
            event_id=f"e{n}" if n < events else None,
        )
        for n in range(1_000)
    )
    reading = accumulator.read("hit_rate")
    assert (reading.interval is None) == (reason is not None)
    assert (accumulator.interval("hit_rate", "fixed") is None) == (reason is not None)
    assert str(reading.no_interval).startswith(str(reason))


def test_values_without_bounds_are_summed_exactly() -> None:
    gains = [1e16, 1.0, 1e-9, 1e16, 3.0]
    events = [Event(recommendations=["a"], interactions={"a": gain}, user="u") for gain in gains]
    tables = []
    for log in (events, events[::-1]):
        accumulator = made(["value_per_list@1"], ())
        for event in log:
            accumulator.update_many([event])
            accumulator.read("value_per_list@1")
        sums = present(accumulator.groups("value_per_list@1"))
        tables.append(sums)
    assert _same(*tables)
    assert float(tables[0].numerators.sum()) == pytest.approx(2e16 + 4, rel=1e-15)
