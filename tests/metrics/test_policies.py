"""Estimates for a policy that was not shown: published numbers, bad input, and what they refuse."""

from __future__ import annotations

import json
import random
import tracemalloc
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from msgspec.structs import replace

from streameval import Accumulator, Intervals, compare, gap
from streameval.accumulator.overlap import Overlap
from streameval.accumulator.table import Table
from streameval.analyses.experiments.files import variant_of
from streameval.analyses.experiments.settings import Experiment
from streameval.analyses.experiments.statistics import compare_with_control
from streameval.catalogue import parse
from streameval.catalogue.reading import Reading
from streameval.events import Event
from streameval.events.batch import Batch
from streameval.events.errors import InvalidEventError, OwnMetricError
from streameval.inference.interval_formulas import interval
from streameval.statistics.intervals import GroupSums
from tests.present import present

RECORDED: Final[list[dict[str, Any]]] = json.loads(Path(__file__).with_name("obp.json").read_text())
"""Random tables, with what Open Bandit Pipeline 0.5.5 estimates from them."""

USERS: Final = ("u1", "u1", "u2", "u3", "u4", "u4", "u5", "u6")
REWARDS: Final = (1, 0, 0, 1, 0, 1, 0, 1)
COLUMNS: Final = {
    "propensity": (0.5, 0.25, 0.25, 0.5, 0.2, 0.3, 0.6, 0.05),
    "target": (0.7, 0.2, 0.1, 0.4, 0.3, 0.3, 0.5, 0.6),
    "predicted": (0.5, 0.25, 0.125, 0.5, 0.25, 0.375, 0.25, 0.125),
    "expected": (0.4, 0.375, 0.25, 0.5, 0.25, 0.25, 0.375, 0.25),
}
SINGLE: Final = {
    "ips": 1.9,
    "ips(clip=2)": 0.65,
    "snips": 0.8113879003558717,
    "importance_weight": 2.341666666666667,
    "importance_weight(statistic=effective_share)": 0.2898502312605536,
    "importance_weight(statistic=maximum)": 11.999999999999998,
    "dr": 1.755208333333333,
    "dr(clip=2)": 0.6614583333333333,
    "dr(direct=true)": 0.33125,
}
SLATES: Final = {
    "ips": 1.05,
    "ips(slots=cascade)": 1.33125,
    "ips(slots=list)": 1.08125,
    "snips": 0.8719723183391004,
    "snips(slots=cascade)": 1.111304347826087,
    "snips(slots=list)": 1.130718954248366,
}


def _singles() -> list[Event]:
    return [
        Event(
            recommendations=["a"],
            interactions=["a"] * reward,
            user=user,
            per_item={name: [column[row]] for name, column in COLUMNS.items()},
        )
        for row, (user, reward) in enumerate(zip(USERS, REWARDS, strict=True))
    ]


def _slates() -> Iterator[Event]:
    propensity = (0.5, 0.4, 0.25), (0.2, 0.5, 0.5), (0.5, 0.5, 0.5), (0.1, 0.8, 0.4)
    target = (0.6, 0.2, 0.5), (0.4, 0.5, 0.25), (0.25, 0.5, 0.5), (0.3, 0.2, 0.6)
    clicked = ("a", "bc", "", "c")
    for items, logged, wanted in zip(clicked, propensity, target, strict=True):
        chances = {"propensity": logged, "target": wanted}
        yield Event(recommendations=["a", "b", "c"], interactions=[*items], per_item=chances)


def _values(events: Sequence[Event], metrics: Sequence[str]) -> dict[str, float]:
    accumulator = Accumulator(*metrics)
    accumulator.update_many(events)
    return {metric: accumulator.read(metric).value for metric in metrics}


def test_single_items_give_the_published_numbers() -> None:
    assert _values(_singles(), [*SINGLE]) == pytest.approx(SINGLE, rel=1e-12)


def test_slates_give_the_published_numbers() -> None:
    assert _values([*_slates()], [*SLATES]) == pytest.approx(SLATES, rel=1e-12)


@pytest.mark.parametrize("number", range(len(RECORDED)))
def test_tables_give_what_open_bandit_pipeline_estimates(number: int) -> None:
    table = RECORDED[number]
    events = []
    for row in table["events"]:
        items = list("abcd"[: len(row["reward"])])
        gains = dict(zip(items, row.pop("reward"), strict=True))
        events.append(Event(recommendations=items, interactions=gains, per_item=row))
    assert _values(events, [*table["values"]]) == pytest.approx(table["values"], rel=1e-9)


def test_the_sums_stay_exact_in_bins() -> None:
    draw = random.Random(5)
    chances = [[draw.uniform(1e-4, 1) for _ in range(4)] for _ in range(3_000)]
    together = Accumulator("importance_weight", "importance_weight(statistic=effective_share)")
    for *logged, first, second in chances:
        values = {"propensity": logged, "target": [first, second]}
        together.update(["a", "b"], [], per_item=values)
    weights = [(first / one + second / other) / 2 for one, other, first, second in chances]
    mean, share = (reading.value for reading in together.compute().values())
    assert mean == pytest.approx(sum(weights) / len(weights), rel=1e-12)
    squares = sum(weight**2 for weight in weights)
    assert share == pytest.approx(sum(weights) ** 2 / len(weights) / squares, rel=1e-12)


def _pane(lists: int, draw: np.random.Generator) -> Table:
    """One pane of 20 slices with this many lists each, all of other weights."""
    text = ("ips", "snips", "importance_weight", "importance_weight(statistic=effective_share)")
    pane, number = Accumulator(*text).table, 20 * lists
    propensities, targets = draw.uniform(0.05, 0.95, number), draw.random(number)
    pairs = zip(propensities.tolist(), targets.tolist(), strict=True)
    batch = Batch(
        recommendations=[["a"]] * number,
        interactions=[["a"] if index % 10 == 0 else [] for index in range(number)],
        per_item=[{"propensity": [logged], "target": [wanted]} for logged, wanted in pairs],
    )
    pane.count(batch, np.tile(np.arange(20), lists))
    pane.flush()
    return pane


@pytest.mark.parametrize("lists", [40, 2_000])  # exact, and binned
def test_120_panes_of_20_slices_with_distinct_weights_take_less_than_50_megabytes(
    lists: int,
) -> None:
    draw = np.random.default_rng(1)
    _pane(2, draw)  # what is made once for all panes
    tracemalloc.start()
    try:
        pane = _pane(lists, draw)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 120 * kept < 50_000_000
    assert pane.cells.size == 20


GOOD: Final[dict[str, list[Any]]] = {name: [0.5, 0.25] for name in COLUMNS}


@pytest.mark.parametrize(
    "bad",
    [
        {},
        {"propensity": None},
        {"propensity": [0.5, None]},
        {"target": [None, 0.5]},
        {"propensity": [0.0, 0.5]},
        {"propensity": [0.5, -0.1]},
        {"propensity": [0.5, 1.00001]},
        {"target": [0.5, -1e-9]},
        {"target": [1.00001, 0.5]},
        {"propensity": [1e-310, 0.5], "target": [1.0, 0.5]},
    ],
)
def test_a_missing_or_impossible_chance_leaves_the_list_out_of_these_metrics_only(
    bad: dict[str, Any],
) -> None:
    accumulator = Accumulator("ctr", "ips", "snips", "importance_weight")
    accumulator.update(["a", "b"], ["b"], per_item=GOOD)
    before = {text: reading.value for text, reading in accumulator.compute().items()}
    accumulator.update(["a", "b"], ["b"], per_item=(GOOD | bad) if bad else None)
    for text, reading in accumulator.compute().items():
        assert reading.value == before[text]
        assert reading.lists == 2
        assert reading.count == (4 if text == "ctr" else 1)


@pytest.mark.parametrize("chances", [(1.0000005, 1.0), (1.0, 1.0000005), (1.0, 0.0), (1e-6, 1.0)])
def test_probabilities_that_were_summed_in_32_bits_are_accepted(
    chances: tuple[float, float],
) -> None:
    accumulator = Accumulator("importance_weight")
    propensity, target = chances
    accumulator.update(["a"], [], per_item={"propensity": [propensity], "target": [target]})
    assert accumulator.read("importance_weight").value == target / propensity


@pytest.mark.parametrize("bad", [[0.5], [0.5, float("nan")], [0.5, float("inf")]])
def test_a_propensity_that_is_no_number_or_lacks_its_item_is_an_invalid_event(
    bad: list[float],
) -> None:
    with pytest.raises(InvalidEventError, match="propensity"):
        Accumulator("ips").update(["a", "b"], [], per_item=GOOD | {"propensity": bad})


@pytest.mark.parametrize(
    ("metric", "bad"),
    [
        ("ips", {"propensity": ["high", 0.5]}),
        ("snips", {"target": [0.5, "0.5"]}),
        ("importance_weight", {"propensity": None, "target": ["low", 0.5]}),
        ("ips(slots=list)", {"propensity": [2.0, 0.5], "target": [0.5, "low"]}),
        ("dr", {"predicted": [0.5, "much"]}),
        ("dr(direct=true)", {"expected": ["much", None]}),
    ],
)
def test_a_word_where_a_number_is_needed_is_an_invalid_event_and_counts_nowhere(
    metric: str, bad: dict[str, Any]
) -> None:
    accumulator = Accumulator("ctr", metric)
    accumulator.update(["a", "b"], ["b"], per_item=GOOD)
    before = accumulator.state_dict()
    event = Event(recommendations=["a", "b"], interactions=[], per_item=GOOD | bad)
    message = r"\]: '.*' is a word; a metric needs a number"
    with pytest.raises(InvalidEventError, match=message):
        accumulator.update(["a", "b"], [], per_item=GOOD | bad)
    with pytest.raises(InvalidEventError, match=message):
        accumulator.update_many([*_singles(), event])
    assert accumulator.state_dict() == before


def test_a_word_below_the_cut_or_in_another_column_is_no_mistake() -> None:
    accumulator = Accumulator("ips@1", "dr(direct=true)", "interleaving")
    values = GOOD | {"propensity": [0.5, "low"], "team": ["a", "b"]}
    accumulator.update(["a", "b"], ["b"], per_item=values)
    assert [reading.lists for reading in accumulator.compute().values()] == [1, 1, 1]


def test_items_count_by_rank_and_a_repeat_has_no_second_reward() -> None:
    chances = {"propensity": [0.5, 0.25, 0.5], "target": [0.25, 0.5, 0.5]}
    accumulator = Accumulator("ips@2", "ips(slots=cascade)@2", "ips@9")
    accumulator.update(["a", "b", "a"], ["a"], positions=[7, 2, 1], per_item=chances)
    assert accumulator.read("ips@2").value == 1.0
    assert accumulator.read("ips(slots=cascade)@2").value == 1.0
    assert accumulator.read("ips@9").value == 1.0  # the item at rank 7 was rewarded at rank 1


def _list(user: int, propensity: float, target: float, *, clicked: bool, item: str = "a") -> Event:
    """One item that was shown."""
    return Event(
        recommendations=[item],
        interactions=[item] if clicked else [],
        user=f"u{user}",
        per_item={"propensity": [propensity], "target": [target]},
    )


def _world(lists: int, *, weight: float = 1.0) -> list[Event]:
    """Two items; the log shows one with 0.8, and the policy to be judged with 0.5.

    `weight`: factor of what is logged as the policy's chance.
    """
    draw = random.Random(8)
    events = []
    for _ in range(lists):
        often = draw.random() < 0.8
        chance, clicked = (0.8, draw.random() < 0.1) if often else (0.2, draw.random() < 0.2)
        user, item = draw.randrange(400), "a" if often else "b"
        events.append(_list(user, chance, 0.5 * weight, clicked=clicked, item=item))
    return events


def _with(event: Event, **values: float) -> Event:
    """The event with more values of its item."""
    more = {name: [value] for name, value in values.items()}
    return replace(event, per_item={**(event.per_item or {}), **more})


def _read(events: Iterable[Event], *metrics: str) -> Accumulator:
    accumulator = Accumulator(*metrics, intervals=Intervals())
    accumulator.update_many(events)
    return accumulator


def test_with_overlap_an_estimate_has_an_interval_of_its_value() -> None:
    texts = ("ips(least=0.2)", "snips(least=0.2)")
    accumulator = _read(_world(4_000), *texts)
    for text in texts:
        interval = present(accumulator.interval(text, "fixed"))
        assert interval.low < 0.15 < interval.high
        assert interval.high - interval.low < 0.04
        assert accumulator.read(text).note is None
    assert accumulator.read(texts[1]).weight == pytest.approx(4_000, rel=0.05)
    assert accumulator.read(texts[1]).total is None


def test_bounds_allow_for_any_reward_of_what_may_never_have_been_shown() -> None:
    plain = [f"{name}(least=0.2)" for name in ("snips", "ips", "dr")]
    events = [_with(event, predicted=0.1, expected=0.15) for event in _world(4_000)]
    accumulator, known = _read(events, "snips", "ips", "dr"), _read(events, *plain)
    unseen = 1.0 - present(accumulator.interval("importance_weight", "fixed")).low
    assert 0.01 < unseen < 0.05
    shown = {"snips": 1.0 - unseen, "ips": 1.0, "dr": 1.0}
    below = {"snips": 0.0, "ips": 0.0, "dr": unseen}
    for name, text in zip(shown, plain, strict=True):
        wide = present(accumulator.interval(name, "fixed"))
        narrow = present(known.interval(text, "fixed"))
        assert wide.low == pytest.approx(narrow.low * shown[name] - below[name], rel=1e-9), name
        assert wide.high == pytest.approx(narrow.high * shown[name] + unseen, rel=1e-9), name
    lifetime = 1.0 - present(accumulator.interval("importance_weight")).low
    assert accumulator.read("snips").note == (
        f"Up to {100 * lifetime:.3g} % of the policy's choices may never have been shown; the "
        "bounds allow for any value there (set the smallest propensity, if every item can be "
        "shown)."
    )


def test_the_bounds_of_the_design_s_world() -> None:
    """Weights of 16 user groups; the lower bound of their mean leaves 0.157 open."""
    lists = 20 + np.arange(16) % 5
    weights = 15.0 + (7 * np.arange(16)) % 11
    numerators = weights[None].astype(np.float64)
    sums = GroupSums(np.zeros(1, np.int64), numerators, lists[None])
    covered = present(interval(sums, Intervals(groups=16), "fixed"))
    assert covered.low == pytest.approx(0.843116667822, abs=1e-12)
    mean = float(weights.sum() / lists.sum())
    weight = Reading(metric="", value=mean, count=352, lists=352, interval=covered)
    one = Reading(metric="", value=1.0, count=352, lists=352)
    overlap = Overlap("between", weight, one, one, limit=one)
    assert overlap.unseen == pytest.approx(0.156883332178, abs=1e-12)
    allowed = overlap.allow(replace(covered, low=0.2, high=0.3), parse("snips"))
    assert allowed.low == pytest.approx(0.168623333564, abs=1e-12)
    assert allowed.high == pytest.approx(0.409818332525, abs=1e-12)


def test_gains_without_a_limit_leave_no_bounds_unless_every_item_can_be_shown() -> None:
    events = [
        replace(event, interactions={str(item): 2.0 for item in event.interactions})
        for event in _world(4_000)
    ]
    accumulator = _read(events, "snips", "snips(least=0.2)")
    assert str(accumulator.read("snips").no_interval).endswith(
        "of the policy's choices may never have been shown, and gains outside 0 to 1 have no known "
        "limits: bring them to 0 to 1, or set the smallest propensity (least=), if every item can "
        "be shown."
    )
    assert accumulator.interval("snips(least=0.2)") is not None


@pytest.mark.parametrize(
    ("least", "reason"),
    [
        ("0.2", None),
        (
            "0.21",
            "of the lists are left out, because the chance of an item is missing,",
        ),
        ("0.004", "smallest chance, 0.004, is shown 20 times in 5,000 lists; there are 4,000."),
    ],
)
def test_the_smallest_chance_must_be_that_of_every_list_and_large_enough(
    least: str, reason: str | None
) -> None:
    reading = _read(_world(4_000), f"ips(least={least})").compute()[f"ips(least={least})"]
    assert (reading.interval is None) == (reason is not None)
    assert reason is None or reason in str(reading.no_interval)


def test_a_single_list_below_the_smallest_chance_is_too_many() -> None:
    events = [*_world(4_000), _list(1, 0.1, 0.5, clicked=False)]
    reading = _read(events, "ips(least=0.2)").read("ips(least=0.2)")
    assert "of the lists are left out, because the chance" in str(reading.no_interval)
    assert str(reading.no_interval).endswith(" is missing, impossible or below 0.2.")


def test_values_of_a_gap_have_the_bounds_of_their_readings() -> None:
    arms = {name: _read(_world(4_000), "snips") for name in ("de", "nl")}
    for value in gap(arms, "snips").values:
        reading = present(arms[value.name].interval("snips", "fixed"))
        assert (value.low, value.high) == (reading.low, reading.high)


def test_with_too_few_effective_rewards_there_is_a_sentence_and_no_interval() -> None:
    reading = _read(_world(150), "snips").read("snips")
    assert reading.interval is None
    assert "Too little overlap: the weights leave 1" in str(reading.no_interval)
    assert "an interval needs 20" in str(reading.no_interval)


@pytest.mark.parametrize("heavy", [7, 8])
def test_one_heavy_list_is_no_overlap_with_a_reward_and_without(heavy: int) -> None:
    """Without a reward of its own, the rewards look well: they are many, and all weigh alike."""
    lists = (
        _list(user, 1e-4 if user == heavy else 0.9, 0.8, clicked=user % 2 == 1)
        for user in range(400)
    )
    reading = _read(lists, "ips").read("ips")
    assert reading.interval is None
    assert "Too little overlap: the weights leave 0.5" in str(reading.no_interval)


def test_the_interval_of_users_who_come_often_is_wider_than_that_of_as_many_users() -> None:
    """Lists of one user are alike, so they are not as much evidence as lists of several."""
    widths = []
    for users in (300, 6_000):
        lists = (
            _list(at % users, 0.5, 0.6 if at % 2 else 0.4, clicked=at % 300 % 5 == 0)
            for at in range(6_000)
        )
        accumulator = _read(lists, "ips", "snips")
        bounds = [present(accumulator.interval(text, "fixed")) for text in ("ips", "snips")]
        widths.append([each.high - each.low for each in bounds])
    often, once = widths
    assert all(wide > 2 * narrow for wide, narrow in zip(often, once, strict=True))


def test_a_log_of_thompson_sampling_has_a_sentence_and_no_interval() -> None:
    """As in the sample of women's fashion in the Open Bandit Dataset, of 10,000 lists.

    Of its chances, one is 1e-6: its list weighs 21,739, and the others 0.96 on average.
    """
    lists = (
        _list(at % 3_000, 1e-6 if at == 77 else 1 / (46 * 0.96), 1 / 46, clicked=at % 217 == 0)
        for at in range(10_000)
    )
    accumulator = _read(lists, "ips", "snips", "importance_weight")
    assert accumulator.read("importance_weight").value == pytest.approx(3.134, abs=0.001)
    for text in ("ips", "snips"):
        reading = accumulator.read(text)
        assert reading.interval is None
        assert "in 2.1 effective lists of 10,000; an interval needs 20" in str(reading.no_interval)
    weight = accumulator.read("importance_weight")
    assert accumulator.interval("importance_weight", "anytime") is None
    assert str(weight.no_interval).startswith("A few lists make up the value: ")
    assert weight.verdict == "too few users"


@pytest.mark.parametrize(("lists", "verdict"), [(40, "not enough evidence"), (6_000, "plausible")])
def test_a_mean_weight_is_plausible_once_its_interval_says_something(
    lists: int, verdict: str
) -> None:
    accumulator = _read(_world(lists), "importance_weight")
    covered = present(accumulator.interval("importance_weight", "anytime"))
    assert covered.low < 1 < covered.high
    assert (covered.low > 0.5 and covered.high < 1.5) == (verdict == "plausible")
    assert accumulator.read("importance_weight").verdict == verdict


def test_a_mean_weight_that_is_not_1_is_not_trusted() -> None:
    few, many = (_read(_world(9_000, weight=scale), "ips", "snips") for scale in (0.7, 1.3))
    for text in ("ips", "snips"):
        assert (
            "of the policy's choices are never shown, or the logged propensities are too high"
            in str(few.read(text).no_interval)
        )
        assert "Do not trust it: the mean weight is 0.7" in str(few.read(text).no_interval)
        assert "the propensities are too low, or the policy's chances sum to more than 1" in str(
            many.read(text).no_interval
        )
        assert few.interval(text, "fixed") is None
        assert many.interval(text, "fixed") is None


@pytest.mark.parametrize(("scale", "verdict"), [(1.0, "plausible"), (0.9, "support is missing")])
def test_a_constant_weight_has_a_verdict_without_an_interval(scale: float, verdict: str) -> None:
    lists = (_list(user, 0.5, 0.5 * scale, clicked=user % 5 > 0) for user in range(500))
    accumulator = _read(lists, "importance_weight", "ips")
    assert accumulator.read("importance_weight").verdict == verdict
    assert (accumulator.read("ips").interval is None) == (scale < 1)


def test_a_clipped_estimate_says_what_the_clip_takes() -> None:
    accumulator = _read(_world(4_000), "ips(clip=2.4)", "ips(clip=1)", "ips(clip=9)")
    slight, deep = (accumulator.read(f"ips(clip={clip})") for clip in (2.4, 1))
    assert "Weights are clipped in" in str(slight.note)
    assert slight.interval is not None
    assert deep.interval is None
    assert str(deep.no_interval).startswith("Do not trust it: weights are clipped in")
    assert "clipped in 0 % of the lists" in str(accumulator.read("ips(clip=9)").note)


def test_lists_without_chances_leave_no_interval_above_2_percent() -> None:
    events = _world(4_000)
    for event in events[::40]:
        event.per_item = None
    assert "2.5 % of the lists are left out" in str(_read(events, "ips").read("ips").no_interval)
    for event in events[::40][:40]:
        event.per_item = {"propensity": [0.5], "target": [0.5]}
    assert _read(events, "ips").read("ips").interval is not None


def test_the_model_alone_is_not_judged_by_weights() -> None:
    events = [
        _with(event, expected=0.1 + 0.1 * (event.user == "u1"))
        for event in _world(4_000, weight=0.5)
    ]
    assert _read(events, "dr(direct=true)").read("dr(direct=true)").interval is not None


def test_two_policies_are_compared_on_one_log_paired_by_user() -> None:
    world = _world(6_000)
    events = [_with(event, same=0.8 if event.recommendations == ["a"] else 0.2) for event in world]
    both = _read(events, "snips", "snips(target=same)", "value_per_list")
    comparison = compare(both, both, "snips", against="value_per_list")
    again = compare(both, both, "snips", against="snips(target=same)")
    assert comparison.verdict == again.verdict == "better"
    assert comparison.control == pytest.approx(again.control, rel=1e-9)
    assert comparison.treatment == pytest.approx(both.read("snips").value, rel=1e-12)
    assert comparison.low is not None
    assert comparison.low < 0.15 - 0.12 < (comparison.high or 0)


def test_an_estimate_that_cannot_be_trusted_is_not_compared() -> None:
    log = _read(_world(9_000, weight=0.7), "snips", "value_per_list")
    comparison = compare(log, log, "snips", against="value_per_list")
    assert comparison.verdict == "do not trust"
    assert "are never shown, or the logged propensities are too high" in str(comparison.reason)
    assert comparison.low is None
    good, bad = (_read(_world(6_000, weight=scale), "ips") for scale in (1.0, 0.7))
    variants = {"control": variant_of(good), "treatment": variant_of(bad)}
    (row, *_) = compare_with_control(
        Experiment(), good.metrics, variants, Intervals(), "fixed"
    ).rows
    assert (row.metric, row.verdict) == ("ips", "do not trust")
    assert "are never shown, or the logged propensities are too high" in row.sentence
    assert row.lift_low is None


def test_only_a_sum_over_events_is_divided_by_another() -> None:
    from streameval import metric  # noqa: PLC0415  read where it is refused

    with pytest.raises(OwnMetricError, match="divides a sum over events"):

        @metric(bounds=(0, 1), over="importance_weight", source="our own rule")
        def ratio(hits: Any) -> Any:
            return hits
