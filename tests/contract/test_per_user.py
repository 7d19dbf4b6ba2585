"""Means over users: exact over a hash sample of them, whatever the order of their lists."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from statistics import mean

import pytest

from streameval import Accumulator, Event, Intervals, Popularity, gap, metric, metric_at
from streameval.accumulator.kinds import user_sums
from streameval.accumulator.kinds.user_sums import user_sums_of
from streameval.catalogue import parse
from streameval.catalogue.metric import Metric
from streameval.events.errors import MetricTextError
from tests.contract import laws
from tests.contract.metric_cases import stream
from tests.strategies import event_of
from tests.uncertainty.test_gap import USERS

NDCG = "ndcg(per=user)@3"


def counted(events: Sequence[Event], *metrics: str, **options: object) -> Accumulator:
    accumulator = Accumulator(*(metrics or (NDCG,)), **options)  # type: ignore[arg-type]  # as given
    accumulator.update_many([*events])
    return accumulator


def shown(user: str | None, *, hit: bool) -> Event:
    return Event(recommendations=["a"], interactions=["a" if hit else "b"], user=user)


def crowd(users: int, prefix: str = "u", seed: int = 1) -> list[Event]:
    """Users with 1 to 12 lists, those with many lists with more hits."""
    draw = random.Random(seed)
    events = []
    for user in range(users):
        lists = min(int(draw.paretovariate(1.3)), 12)
        level = 0.2 + 0.05 * lists
        events += [shown(f"{prefix}{user}", hit=draw.random() < level) for _ in range(lists)]
    draw.shuffle(events)
    return events


def by_hand(events: Sequence[Event]) -> dict[str, float]:
    """The share of lists with a hit of each user."""
    users: dict[str, list[bool]] = {}
    for event in events:
        if isinstance(event.user, str):
            hit = event.recommendations[0] in event.interactions
            users.setdefault(event.user, []).append(hit)
    return {user: mean(map(float, hits)) for user, hits in users.items()}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("ndcg@3", 0.603582028),
        (NDCG, 0.513499130),
        ("ndcg(per=user,statistic=median)@3", 0.540497390),
        ("ndcg(per=user,statistic=quantile,q=0.1)@3", 0.108099478),
        ("ndcg(per=user,statistic=zeros)@3", 1 / 3),
        ("recall@3", 0.597222222),
        ("recall(per=user)@3", 0.495370370),
    ],
)
def test_values_equal_those_of_ir_measures_averaged_by_pandas(text: str, value: float) -> None:
    accumulator = Accumulator(text)
    for user, _, items, clicks in USERS:
        accumulator.update(items.split(), clicks.split(), user=user)
    assert accumulator.read(text).value == pytest.approx(value, abs=1e-9)


def test_the_support_are_users_and_there_is_no_sum() -> None:
    reading = counted(crowd(50), "hit_rate(per=user)@1").read("hit_rate(per=user)@1")
    assert (reading.count, reading.total, reading.estimated) == (50, None, False)
    assert reading.lists > 50


TEXTS = (
    "ndcg(per=user)@3",
    "hit_rate(per=user)@2",
    "novelty@3",
    "user_novelty(per=user)@3",
    "ndcg(per=user,statistic=zeros)@3",
)


def test_above_the_cap_any_order_split_and_load_gives_the_same_bits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(user_sums, "MOST_USERS", 3)
    events = stream(40)
    for seed, intervals in enumerate((None, Intervals(groups=16)) * 2):
        laws.however_counted(TEXTS, events, random.Random(seed), intervals)
    assert laws.counted(TEXTS, events).read(NDCG).estimated


def test_above_the_cap_the_mean_is_that_of_the_users_with_small_hashes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(user_sums, "MOST_USERS", 128)
    text = "hit_rate(per=user)@1"
    inside, worlds = 0, 40
    for world in range(worlds):
        events = crowd(400, f"w{world}-")
        accumulator = counted(events, text, intervals=Intervals())
        reading = accumulator.read(text)
        exact = mean(by_hand(events).values())
        interval = accumulator.interval(text, "fixed")
        assert interval is not None
        assert reading.estimated
        assert 200 <= reading.count <= 800
        inside += interval.low <= exact <= interval.high
    assert inside >= 34, "of 95 %, fewer are rarer than 1 in 1000"


def test_the_heaviest_user_moves_the_mean_by_no_more_than_a_user() -> None:
    events = crowd(80)
    text = "hit_rate(per=user)@1"
    before = counted(events, text).read(text).value
    after = counted([*events, *[shown("u7", hit=True)] * 10_000], text).read(text).value
    assert abs(after - before) <= 1 / 80
    by_list = [
        counted(inputs, "hit_rate@1").read("hit_rate@1").value for inputs in (events, events)
    ]
    assert by_list[0] == by_list[1]


def test_lists_without_a_user_are_in_no_mean_and_cost_the_interval() -> None:
    text = "hit_rate(per=user)@1"
    events = crowd(300)
    nameless = [shown(None, hit=True)] * 900
    accumulator = counted([*events, *nameless], text, intervals=Intervals())
    reading = accumulator.read(text)
    assert reading.value == pytest.approx(mean(by_hand(events).values()), abs=1e-9)
    assert reading.count == 300
    assert reading.interval is None
    assert "do not name their user" in (reading.no_interval or "")
    alone = counted(nameless, text).read(text)
    assert math.isnan(alone.value)
    assert alone.count == 0


def test_an_event_id_is_no_user() -> None:
    text = "hit_rate(per=user)@1"
    accumulator = Accumulator(text, intervals=Intervals())
    from streameval.events import Batch  # noqa: PLC0415  columns that Event has not

    accumulator.update_many(
        Batch(
            recommendations=[["a"]] * 3,
            interactions=[["a"], ["b"], ["b"]],
            users=["u", "u", None],
            event_ids=["1", "2", "3"],
        )
    )
    assert accumulator.read(text).value == 0.5


def test_intervals_are_those_of_the_users_means() -> None:
    text = "hit_rate(per=user)@1"
    events = crowd(3_000)
    of_users = counted(events, text, intervals=Intervals()).interval(text, "fixed")
    means = by_hand(events)
    once = Accumulator("value_per_list(cap=1)@1", intervals=Intervals())
    once.update_many(
        event_of(["a"], {"a": level} if level else [], user=user) for user, level in means.items()
    )
    alike = once.interval("value_per_list(cap=1)@1", "fixed")
    assert of_users is not None
    assert alike is not None
    assert (of_users.low, of_users.high) == pytest.approx((alike.low, alike.high), rel=1e-6)


def test_the_share_of_zeros_has_an_interval_and_quantiles_have_none() -> None:
    texts = [f"hit_rate(per=user,statistic={statistic})@1" for statistic in ("zeros", "median")]
    accumulator = counted(crowd(2_000), *texts, intervals=Intervals())
    zeros, median = map(accumulator.read, texts)
    assert zeros.interval is not None
    assert zeros.interval.low < zeros.value < zeros.interval.high
    assert median.interval is None
    assert "not a mean" in (median.no_interval or "")


@pytest.mark.parametrize(
    "text",
    [
        "value_per_list(per=user)",
        "dcg(per=user)@3",
        "rmse(per=user)",
        "gini(per=user)@3",
        "ctr(per=user)@3",
        "auc(per=user)",
        "ndcg(per=users)@3",
    ],
)
def test_what_is_no_bounded_mean_over_lists_is_refused(text: str) -> None:
    with pytest.raises(MetricTextError):
        parse(text)


def spend_up_to(limit: float) -> Metric:
    @metric(bounds=(0, limit), source="test")
    def spent(event: Event) -> float:
        """What the user spends at once: the limit."""
        del event
        return limit

    return metric_at(spent, per="user")


def test_values_up_to_their_bounds_are_whole_in_a_mean_over_users() -> None:
    spent = spend_up_to(2.0**20)
    accumulator = Accumulator(spent)
    accumulator.update_many([shown("u", hit=True)] * 2_047)
    assert accumulator.read(spent.text).value == 2.0**20
    with pytest.raises(MetricTextError, match="1,048,576"):
        spend_up_to(2.0**20 + 1)


def test_it_has_a_gap() -> None:
    text = "hit_rate(per=user)@1"
    good, bad = crowd(900, "g"), [shown(f"b{user % 500}", hit=user % 7 == 0) for user in range(900)]
    values = {"g": counted(good, text, intervals=Intervals())}
    values["b"] = counted(bad, text, intervals=Intervals())
    judged = gap(values, text)
    assert judged.worst == ("b",)
    means = [mean(by_hand(events).values()) for events in (bad, good)]
    assert judged.difference == pytest.approx(means[1] - means[0], abs=1e-9)


def test_another_metric_per_user_starts_empty_and_the_known_ones_stay() -> None:
    events = stream(30)
    before = laws.counted(["ndcg(per=user)@3"], events)
    after = Accumulator("ndcg(per=user)@3", "hit_rate(per=user)@3")
    assert after.adopt(laws.dumped(before)) == {"usersums:hit_rate@3"}
    assert after.read(NDCG).value == before.read(NDCG).value
    assert math.isnan(after.read("hit_rate(per=user)@3").value)


def test_another_table_of_items_empties_only_the_sums_that_read_it() -> None:
    inputs = [shown(f"u{user}", hit=user % 2 > 0) for user in range(20)]
    texts = ("hit_rate(per=user)@1", "tail_percentage(per=user)@1")
    old, new = (Popularity({"a": count, "b": 1}, version=f"v{count}") for count in (1, 2))
    data = laws.dumped(counted(inputs, *texts, popularity=old))
    fresh = Accumulator(*texts, popularity=new)
    table = fresh.table.empty()
    assert table.load(data, [0], empty_unlike=True) == {"usersums:tail_percentage@1"}
    sums = user_sums_of(parse("hit_rate(per=user)@1"), table)
    assert sums.over("hit_rate@1", [0]).means.mean() == 0.5
    assert not sums.over("tail_percentage@1", [0]).users
