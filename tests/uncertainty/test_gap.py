"""Gaps between the values of a label: no alarm by chance, and the worst value is always named."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import combinations
from typing import Any, get_args

import numpy as np
import pytest
from numpy.typing import ArrayLike

from streameval import Accumulator, Intervals, gap
from streameval.accumulator.objections import SliceSums
from streameval.analyses.gaps.statistics import Gap, gap_of
from streameval.catalogue import parse
from streameval.events import Event
from streameval.events.errors import MetricError, NotComparableError, UnlikeStateError
from streameval.inference.interval_formulas import pool_days
from streameval.statistics.arrays import BoolArray, FloatArray, IntArray
from streameval.statistics.intervals import GroupSums, IntervalKind
from tests.present import present

GROUPS = 256
NDCG = parse("ndcg@10")

FIXED = 60
"""Worlds of one look; the largest number of alarms that 5 % make at p = 0.001 is 10."""

PEEKED = 12
"""Worlds of 30 looks each; likewise 5."""


class Population:
    """Users of several values of a label with a heavy tail of lists, and a level of their own.

    `worst`: the share that the last value loses.
    """

    def __init__(self, seed: int, values: int, *, worst: float = 0.0) -> None:
        draw = np.random.default_rng([seed, values])
        self.names = [f"v{number:02}" for number in range(values)]
        self.users = [int(size) for size in draw.integers(600, 6_000, values)]
        self._parts = []
        for number, users in enumerate(self.users):
            lists = np.minimum(draw.pareto(1.6, users) + 1.0, 300.0).astype(np.int64)
            level = 0.4 * (1.0 - worst if number == values - 1 else 1.0)
            of_user = draw.beta(2.0 * level / 0.4, 2.0 * (1.0 - level) / 0.4, users)
            means = draw.binomial(lists, np.clip(of_user, 0.0, 1.0)) / lists
            self._parts.append((draw.integers(0, GROUPS, users), lists, means, draw.random(users)))

    def until(self, share: float = 1.0) -> dict[str, SliceSums]:
        """The sums of the users who have come by a share of the time."""
        return {
            name: _sums(groups, lists, means, came < share)
            for name, (groups, lists, means, came) in zip(self.names, self._parts, strict=True)
        }


def _sums(groups: IntArray, lists: IntArray, means: FloatArray, came: BoolArray) -> SliceSums:
    x, n = (
        np.bincount(groups[came], amounts[came], minlength=GROUPS).astype(np.float64)
        for amounts in (lists * means, lists)
    )
    return sliced(x, n)


def sliced(values: ArrayLike, lists: ArrayLike) -> SliceSums:
    """The sums of a slice by group, of one day; one number of lists is that of every group."""
    above = np.atleast_2d(np.asarray(values, np.float64))
    below = np.broadcast_to(np.asarray(lists, np.int64), above.shape)
    return SliceSums(GroupSums(np.array([0]), above, below), None)


def ctr_gap(**values: SliceSums) -> Gap:
    """The gap of click-through rates, by a fixed look."""
    return gap_of(parse("ctr"), values, Intervals(), "fixed")


def gap_between(values: Mapping[str, SliceSums], kind: IntervalKind = "fixed") -> Gap:
    return gap_of(NDCG, values, Intervals(), kind)


def differs(result: Gap) -> bool:
    return result.low is not None and result.low > 0


def alarms(values: int) -> int:
    """How many worlds without a gap have one for certain."""
    gaps = (gap_between(Population(seed, values).until()) for seed in range(FIXED))
    return sum(map(differs, gaps))


@pytest.mark.parametrize("values", [2, 8, 30])
def test_equal_values_have_no_gap_for_certain(values: int) -> None:
    assert alarms(values) <= 10


def test_equal_values_have_no_gap_for_certain_however_often_one_looks() -> None:
    false_alarms = 0
    for seed in range(PEEKED):
        world = Population(1_000 + seed, 8)
        looks = (gap_between(world.until(day / 30), "anytime") for day in range(3, 31, 3))
        false_alarms += any(map(differs, looks))
    assert false_alarms <= 5


@cache
def _worse_worlds(values: int) -> tuple[dict[str, SliceSums], ...]:
    return tuple(Population(2_000 + seed, values, worst=0.27).until() for seed in range(20))


def worse(values: int) -> tuple[Gap, ...]:
    """Gaps of worlds whose last value is 27 % worse; not cached: mistakes are tried in them."""
    return tuple(map(gap_between, _worse_worlds(values)))


@pytest.mark.parametrize("values", [2, 8, 30])
def test_a_large_gap_is_certain_and_its_bounds_cover_it(values: int) -> None:
    gaps = worse(values)
    assert sum(map(differs, gaps)) >= 16
    truth = 0.27 * 0.4
    assert sum(present(look.low) <= truth <= present(look.high) for look in gaps) >= 16


@pytest.mark.parametrize("values", [2, 8, 30])
def test_the_worst_value_is_among_those_that_may_be_the_worst(values: int) -> None:
    last = f"v{values - 1:02}"
    assert all(last in look.worst for look in worse(values))
    others = sum(len(look.worst) - 1 for look in worse(values)) / len(worse(values))
    assert others <= values / 4, "most of the others are surely not the worst"


@pytest.mark.parametrize("kind", get_args(IntervalKind))
def test_bounds_of_limits_are_beyond_those_of_every_pair(kind: IntervalKind) -> None:
    """The quick way skips pairs; a pair by itself is not corrected, so it is the narrower one."""
    values = Population(7, 9, worst=0.2).until()
    total = gap_between(values, kind)
    pairs = [gap_between(dict(pair), kind) for pair in combinations(values.items(), 2)]
    assert present(total.low) <= max(pair.low for pair in pairs if pair.low is not None)
    assert present(total.high) >= max(pair.high for pair in pairs if pair.high is not None)


def test_two_values_have_the_gap_of_their_pair() -> None:
    values = Population(3, 2, worst=0.2).until()
    pair = gap_between(values)
    means, moves = [], []
    for _, x, n in (value.sums for value in values.values()):
        means.append(float(x.sum() / n.sum()))
        moves.append(means[-1] - (x.sum() - x[0]) / (n.sum() - n[0]))
    error = math.sqrt((GROUPS - 1) / GROUPS * float(np.square(moves[0] - moves[1]).sum()))
    assert pair.difference == pytest.approx(abs(means[0] - means[1]), rel=1e-12)
    low, high = present(pair.low), present(pair.high)
    assert (low + high) / 2 == pytest.approx(pair.difference, rel=1e-9)
    assert 1.9 < (high - low) / 2 / error < 2.2


def count_lists(metric: str, lists: Iterable[Event]) -> Accumulator:
    accumulator = Accumulator(metric, intervals=Intervals())
    accumulator.update_many(lists)
    return accumulator


def list_of(user: str | None, *, hit: bool) -> Event:
    """A list of one item, which the user wants or does not."""
    return Event(recommendations=["a"], interactions=["a"] if hit else ["b"], user=user)


def crowd(level: float, users: int = 400, *, seed: int = 1) -> Accumulator:
    draw = np.random.default_rng(seed)
    lists = (
        list_of(f"{seed}-{level}-{user}", hit=draw.random() < level)
        for user in range(users)
        for _ in range(3)
    )
    return count_lists("hit_rate@1", lists)


def test_a_value_at_0_is_the_worst_and_is_compared() -> None:
    result = gap({"de": crowd(0.0), "nl": crowd(0.4, seed=2)}, "hit_rate@1")
    assert (result.worst, result.ratio, result.ratio_low) == (("de",), 0.0, 0.0)
    assert present(result.low) > 0.3


def test_a_value_at_0_by_chance_is_not_surely_worse() -> None:
    few = count_lists("hit_rate@1", (list_of(f"few-{user}", hit=False) for user in range(40)))
    many = crowd(0.01, 3_000, seed=4)
    result = gap({"few": few, "many": many}, "hit_rate@1")
    assert result.left_out == {
        "few": "Too few clicks: the equivalent of fewer than 12 equally active users."
    }


def test_what_is_no_group_is_shown_and_named_and_never_compared() -> None:
    nameless = (list_of(None, hit=number % 2 == 1) for number in range(2_000))
    anonymous = count_lists("hit_rate@1", nameless)
    inputs = {
        "de": crowd(0.4),
        "nl": crowd(0.5, seed=2),
        "few": crowd(0.9, 5, seed=3),
        "nameless": anonymous,
        "none": Accumulator("hit_rate@1", intervals=Intervals()),
        "__missing__": crowd(0.1, seed=4),
        "__other__": crowd(0.1, seed=5),
    }
    result = gap(inputs, "hit_rate@1")
    assert set(result.compared) == {"de", "nl"}
    reasons = {name: reason.split(":")[0] for name, reason in result.left_out.items()}
    assert reasons == {
        "few": "Too few users",
        "nameless": "No list names its user, and lists of one user resemble each other",
        "none": "It has no list with a value.",
        "__missing__": "It stands for lists without a value, which are not a group.",
        "__other__": "It stands for many values, which are not a group.",
    }
    means = {value.name: value.mean for value in result.values}
    assert means["none"] is None
    assert means["__missing__"] == pytest.approx(0.1, abs=0.05)
    assert result.difference == pytest.approx(0.1, abs=0.06)


def test_if_lower_is_better_the_worst_is_the_highest() -> None:
    made = {}
    for index, name in enumerate(("near", "far")):
        scores = np.random.default_rng(index).random(900) + 2 * index
        lists = (
            Event(
                recommendations=["a"], interactions={"a": 1.0}, scores=[score], user=f"{name}{user}"
            )
            for user, score in enumerate(scores.tolist())
        )
        made[name] = count_lists("mae", lists)
    result = gap(made, "mae")
    assert result.difference is not None
    assert result.worst == (result.values[-1].name,)


def test_users_of_several_values_leave_them_at_once() -> None:
    """The same users in both values: what is common to both is no part of the error."""
    hits = np.random.default_rng(5).integers(0, 11, 400).tolist()

    def ten_lists(prefix: str) -> Accumulator:
        lists = (
            list_of(f"{prefix}{user}", hit=number < hits[user])
            for user in range(400)
            for number in range(10)
        )
        return count_lists("hit_rate@1", lists)

    common = gap({"a": ten_lists("u"), "b": ten_lists("u")}, "hit_rate@1")
    separate = gap({"a": ten_lists("0-"), "b": ten_lists("1-")}, "hit_rate@1")
    assert common.high is None, "two equal values of the same users do not vary"
    assert present(separate.high) > 0.01


@pytest.mark.parametrize(
    ("given", "metric", "error"),
    [
        ({"de": Accumulator("gini@1", intervals=Intervals())}, "gini@1", "not a mean"),
        ({"de": Accumulator("ctr", intervals=Intervals())}, "map@1", "not configured"),
        ({"de": Accumulator("ctr")}, "ctr", "intervals=Intervals"),
        ({"de": Accumulator("ctr", intervals=Intervals())}, ["ctr"], "is not a metric"),
        *(
            ({}, "ctr", "Accumulator"),
            (None, "ctr", "Accumulator"),
            ({"de": 3}, "ctr", "Accumulator"),
        ),
    ],
)
def test_what_is_not_compared_is_refused_with_its_reason(
    given: Any, metric: Any, error: str
) -> None:
    with pytest.raises((NotComparableError, MetricError), match=error):
        gap(given, metric)


USERS = (
    ("u1", "de", "6 0 2 1", "0 2 4 6"),
    ("u2", "nl", "1 4 0 2", "0 2 4"),
    ("u2", "nl", "5 1 0 2", "1 4"),
    ("u2", "nl", "0 6 3 4", "0 3 4"),
    ("u1", "de", "5 1 0 2", "5"),
    ("u0", "nl", "2 5 4 0", "0"),
    ("u2", "nl", "0 1 3 2", ""),
)
"""User, country, items shown, items clicked."""


def golden() -> Iterator[tuple[str, str, list[str], list[str]]]:
    """The lists, once for each of 40 users of every kind: two users alone cannot be compared."""
    for number in range(40):
        for user, country, shown, clicked in USERS:
            items, clicks = ([f"i0{code}" for code in text.split()] for text in (shown, clicked))
            yield f"{user}-{number}", country, items, clicks


def test_the_gap_equals_that_of_fairlearn() -> None:
    counted = {name: Accumulator("ndcg@3", intervals=Intervals()) for name in ("de", "nl")}
    for user, country, shown, clicked in golden():
        counted[country].update(shown, clicked, user=user)
    disparity = gap(counted, "ndcg@3")
    means = {value.name: value.mean for value in disparity.values}
    assert means == {"de": pytest.approx(1.0, abs=1e-9), "nl": pytest.approx(0.405373043, abs=1e-9)}
    assert disparity.difference == pytest.approx(0.594626957, abs=1e-9)
    assert disparity.ratio == pytest.approx(0.405373043, abs=1e-9)


def rare() -> dict[str, SliceSums]:
    """Four values by 16 groups: two of many clicks, one of a click in every third, one of none."""
    g = np.arange(16)
    lists = [30 * (4 - j) + (7 * g + 3 * j) % 11 for j in range(4)]
    clicks = [(5 * g + j) % 4 + 2 * (2 - j) for j in (0, 1)] + [g % 3 == 0, 0 * g]
    return {f"v{j}": sliced(x, n) for j, (x, n) in enumerate(zip(clicks, lists, strict=True))}


def test_the_users_of_a_value_are_worth_what_they_and_their_lists_say() -> None:
    values = {name: value.sums for name, value in rare().items()}
    numerators, denominators = (
        np.array([sums[part][0] for sums in values.values()]) for part in (1, 2)
    )
    total = pool_days(GroupSums(np.arange(4), numerators, denominators))
    lists = sum(sums.denominators.sum() for sums in values.values())
    estimates = {name: pool_days(sums) for name, sums in values.items()}
    foretold = {
        name: total.relative_variance * lists / sums.denominators.sum()
        for name, sums in values.items()
    }
    assert estimates["v2"].relative_variance == pytest.approx(0.113984306374, rel=1e-9)
    assert foretold["v2"] == pytest.approx(0.00731933175604, rel=1e-9)
    assert [estimates[name].effective_groups(foretold[name]) for name in values] == pytest.approx(
        [14.3429156795, 13.8033620648, 13.2938465976, 12.0720522675], rel=1e-9
    )
    assert (estimates["v3"].relative_variance, estimates["v3"].effective_groups()) == (
        math.inf,
        -1.0,
    )


def test_a_gap_of_rare_clicks_is_that_of_square_roots() -> None:
    result = ctr_gap(**rare())
    assert result.compared == ("v3", "v2", "v1", "v0")
    assert (result.difference, result.low, result.high) == pytest.approx(
        (0.0439780109945, 0.0367692563675, 0.0511867656215), rel=1e-9
    )


def test_a_value_of_a_few_clicks_by_chance_is_left_out() -> None:
    """Five groups have a click; their lists would promise no more."""
    draw = np.random.default_rng(5)
    result = ctr_gap(
        few=sliced(np.arange(GROUPS) < 5, 1),
        **{name: sliced(draw.poisson(0.5, GROUPS), 20) for name in ("one", "other")},
    )
    assert result.left_out == {
        "few": "Too few clicks: the equivalent of fewer than 12 equally active users."
    }
    assert set(result.compared) == {"one", "other"}


def test_the_ratio_is_below_1_for_certain_only_if_the_difference_is_above_0() -> None:
    """Of few lists that click more often, logarithms are sure before square roots are."""
    ratios = []
    for seed in range(40):
        draw = np.random.default_rng([48, seed])
        low = sliced(draw.poisson(8.0, GROUPS), 2_000)
        result = ctr_gap(low=low, high=sliced(draw.poisson(0.12, GROUPS), 20))
        assert (result.ratio_high or 1.0) == 1.0 or (result.low or 0.0) > 0.0
        ratios.append(result.ratio_high)
    assert any((ratio or 1.0) < 1.0 for ratio in ratios)


def test_values_below_0_are_compared_by_their_differences() -> None:
    """Gains may be losses, so that a mean of them has no square root."""
    draw = np.random.default_rng(3)
    values = {
        name: sliced(draw.normal(10 * level, 3.0, GROUPS), 10)
        for name, level in (("loss", -1.0), ("gain", 2.0))
    }
    result = gap_of(parse("value_per_list"), values, Intervals(), "fixed")
    assert (present(result.low) + present(result.high)) / 2 == pytest.approx(result.difference)
    assert result.ratio is None


def test_many_clicks_on_few_lists_are_enough() -> None:
    """The other values would promise a click or two of such lists."""
    draw = np.random.default_rng(6)
    shapes = (("few", 0.4, 1), ("one", 0.5, 100), ("other", 0.5, 100))
    result = ctr_gap(
        **{name: sliced(draw.poisson(clicks, GROUPS), lists) for name, clicks, lists in shapes}
    )
    assert result.compared[-1] == "few"


def test_the_ratio_of_a_lowest_of_0_is_below_1_only_if_the_others_differ() -> None:
    two = gap({"zero": crowd(0.0), "one": crowd(0.4, seed=2)}, "hit_rate@1")
    assert (two.ratio, two.ratio_low, two.ratio_high) == (0.0, 0.0, 1.0)
    three = {"zero": crowd(0.0), "one": crowd(0.4, seed=2), "two": crowd(0.8, seed=3)}
    result = gap(three, "hit_rate@1")
    assert (result.ratio, result.ratio_low) == (0.0, 0.0)
    assert 0.5 < present(result.ratio_high) < 0.7


def test_ties_are_all_possibly_the_worst_in_the_order_of_their_names() -> None:
    same = crowd(0.4, seed=2)
    result = gap({"b": same, "a": same, "c": crowd(0.9, seed=3)}, "hit_rate@1")
    assert result.compared == ("a", "b", "c")
    assert result.worst == ("a", "b")


def test_sums_of_unequal_numbers_of_groups_are_refused() -> None:
    with pytest.raises(UnlikeStateError, match="numbers of user groups"):
        ctr_gap(**rare(), wide=sliced(np.ones(32), 9))


def test_the_bounds_of_a_ratio_are_those_of_any_unit() -> None:
    """Also beside a value that does not vary, whose error is that of all lists."""
    random = np.random.default_rng(1)
    varied, flat = random.integers(2, 12, GROUPS).astype(np.float64), np.full(GROUPS, 8.0)
    total, half = (
        ctr_gap(a=sliced(unit * flat, 20), b=sliced(unit * varied, 20)) for unit in (1.0, 0.5)
    )
    assert total.ratio_low == pytest.approx(half.ratio_low, rel=1e-12)
    assert total.ratio_high == pytest.approx(half.ratio_high, rel=1e-12)
    assert total.ratio_low != total.ratio_high
