"""The users of an experiment: their split, ramps, moves, missing ids, and how often they come."""

from __future__ import annotations

from datetime import date

import numpy as np
import pytest

from streameval import Accumulator, Columns, Event, compare
from streameval.accumulator.kinds.experiment import Activity, activity
from streameval.analyses.experiments.sample_ratio import (
    ALARM,
    ratio_evidence,
    smallest_imbalance,
)
from streameval.analyses.experiments.settings import DatedShares, Experiment
from streameval.analyses.experiments.statistics import Variant
from streameval.catalogue import parse
from streameval.decoding.values import MISSING_LABEL
from streameval.statistics.intervals import GroupSums, Intervals
from tests.crowds import audience
from tests.present import present
from tests.uncertainty.test_experiment import RAMP, crowd, of_ctr, report, row, variant
from tests.uncertainty.test_interval import sums

BEGIN = (date(2026, 3, 1) - date(1970, 1, 1)).days


def ramp(seed: int, *, moving: bool, users: int = 40_000) -> dict[str, Variant]:
    """Users who come first on one of 14 days, half of them again a week later.

    `moving`: whether the variant is drawn by the newest shares at each visit.
    """
    random = np.random.default_rng(seed)
    hashes, luck = crowd(seed, users), random.random(users)
    first = random.integers(0, 14, users)
    last = np.where(random.random(users) < 0.5, first + 7, first)
    treated = [luck < np.where(day >= 7, 0.5, 0.01) for day in (first, last if moving else first)]
    days: dict[str, tuple[list[int], list[int]]] = {}
    arms = {}
    for name, side in (("control", False), ("treatment", True)):
        came = [side_ == side for side_ in treated]
        begin = np.where(came[0], first, last) + BEGIN
        end = np.where(came[1], last, first) + BEGIN
        here = came[0] | came[1]
        days[name] = begin[here].tolist(), end[here].tolist()
        who = audience(hashes[here], days=(begin[here], end[here]))
        arms[name] = variant(seed + side)._replace(audience=who)
    return arms


def test_a_ramp_of_new_users_has_a_verdict_if_the_shares_have_dates() -> None:
    arms = ramp(3, moving=False)
    dated = report(Experiment(shares=RAMP), arms).checks
    assert dated.trouble == ()
    assert [split.since for split in dated.splits] == [date(2026, 3, 1), date(2026, 3, 8)]
    assert dated.splits[0].shares == {"control": 0.99, "treatment": 0.01}
    (without,) = report(Experiment(), arms).checks.trouble
    assert "users are not split as planned" in without


def test_a_wrong_split_of_one_part_of_a_ramp_is_found() -> None:
    other: DatedShares = [RAMP[0], {"since": date(2026, 3, 8), "control": 60, "treatment": 40}]
    (problem,) = report(Experiment(shares=other), ramp(3, moving=False)).checks.trouble
    assert problem.startswith("users are not split as planned (new since 2026-03-08: control ")
    assert "; planned control 60.0 %, treatment 40.0 %)" in problem


def test_users_who_come_first_on_the_day_of_a_change_are_not_checked() -> None:
    """The shares changed at some hour of that day, so neither holds for it."""
    arms = ramp(5, moving=False)
    late = crowd(6, 3_000)
    who = arms["control"].audience
    first = np.concatenate([who.first, np.full(late.size, BEGIN + 7)])
    more = audience(
        np.concatenate([who.hashes, late]), days=(first, np.concatenate([who.last, first[-3_000:]]))
    )
    arms["control"] = arms["control"]._replace(audience=more)
    assert report(Experiment(shares=RAMP), arms).checks.trouble == ()


def test_users_who_move_between_variants_on_a_ramp_are_named() -> None:
    checks = report(Experiment(shares=RAMP), ramp(4, moving=True)).checks
    assert not checks.same_users
    (problem,) = (line for line in checks.trouble if "in several variants" in line)
    share = checks.moved["control -> treatment"]
    assert share == pytest.approx(0.5 * 0.5 * 0.49, rel=0.1)
    assert f"{100 * share:.1f} % moved from control to treatment" in problem


def test_a_ramp_that_moved_users_may_start_over_with_its_last_shares() -> None:
    arms = ramp(4, moving=True)
    begin = Experiment(since=date(2026, 3, 9), shares={"control": 1, "treatment": 1})
    assert report(begin, arms).checks.trouble == ()


def test_users_before_the_start_are_not_checked() -> None:
    """A split that was repaired, and users who changed their variant before the start."""
    good, bad = crowd(8, 6_000), crowd(9, 4_000)
    zeros, later = np.zeros(bad.size, np.int64), np.full(good.size, 9)
    who = np.concatenate([bad, good[:3_000]])
    days = np.concatenate([zeros, later[:3_000]])
    arms = {
        "control": variant(10)._replace(audience=audience(who, days=(days, days))),
        "treatment": variant(20)._replace(
            audience=audience(good[3_000:], days=(later[3_000:], later[3_000:]))
        ),
    }
    assert len(report(Experiment(), arms).checks.trouble) == 1
    since = report(Experiment(since=date(1970, 1, 5)), arms).checks
    assert (since.trouble, since.users) == ((), {"control": 3_000, "treatment": 3_000})


def test_the_smallest_imbalance_is_found_in_99_of_100_samples() -> None:
    random = np.random.default_rng(4)
    for users, share in ((20_000, 0.5), (500_000, 0.5), (100_000, 0.9)):
        shift = present(smallest_imbalance(users, [share, 1 - share]))
        first = random.binomial(users, share - shift, 2_000)
        alarms = [
            ratio_evidence([int(count), users - int(count)], [share, 1 - share]) >= ALARM
            for count in first
        ]
        assert 0.98 <= np.mean(alarms) <= 0.998
    assert smallest_imbalance(8, [0.5, 0.5]) is None


def test_lists_without_an_id_in_one_variant_only_are_not_trusted() -> None:
    """A bot without a name in one variant, with 1 % of the lists: below the limit of all lists."""
    control = variant(10)._replace(audience=audience(crowd(1), lists=100_000))
    bot = variant(20)._replace(audience=audience(crowd(2), lists=101_000, anonymous=1_000))
    problem = report(Experiment(), {"control": control, "treatment": bot}).checks.trouble
    reasons = [reason.partition(" (")[0] for reason in problem]
    assert reasons == ["lists without a user id are more frequent in some variant"]
    alike = {name: bot._replace(audience=bot.audience) for name in ("control", "treatment")}
    alike["control"] = variant(1)._replace(
        audience=audience(crowd(1), lists=100_000, anonymous=1_100)
    )
    assert report(Experiment(), alike).checks.trouble == ()


LOST = (
    "{} % of treatment's users also have lists without a variant, but only {} % of control's: "
    "lists of one variant lose it, so the remaining lists are not comparable; send the variant "
    "with every list"
)
LEFT_OUT = (
    "30.0 % of treatment's users also have lists without a variant, but only 20.0 % of control's: "
    "these lists are left out"
)


@pytest.mark.parametrize(
    ("shares", "trouble", "notes"),
    [
        ((0.0, 0.3), [LOST.format("30.0", "0.0")], []),
        ((0.3, 0.3), [], []),
        ((0.0, 0.004), [], []),
        ((0.2, 0.3), [], [LEFT_OUT]),
    ],
)
def test_a_variant_that_loses_its_label_is_found(
    shares: tuple[float, float], trouble: list[str], notes: list[str]
) -> None:
    """Who comes more often has more lists without a variant, if only some pages send it."""
    users = [crowd(1), crowd(2)]
    begin = BEGIN + np.zeros(users[0].size, np.int64)
    arms = {
        name: variant(seed)._replace(audience=audience(of, days=(begin, begin)))
        for name, seed, of in (("control", 10, users[0]), ("treatment", 20, users[1]))
    }
    some = np.concatenate(
        [of[: round(share * of.size)] for of, share in zip(users, shares, strict=True)]
    )
    day = BEGIN + np.zeros(some.size, np.int64)
    missing = variant(30)._replace(audience=audience(some, lists=9_000, days=(day, day)))
    earlier = variant(30)._replace(audience=audience(some, lists=9_000, days=(day - 9, day - 9)))
    experiment = Experiment(since=date(2026, 3, 1))
    checks = report(experiment, arms | {MISSING_LABEL: missing}).checks
    assert (list(checks.trouble), [note for note in checks.notes if "without a" in note]) == (
        trouble,
        notes,
    )
    assert checks.unlabelled == dict(zip(arms, shares, strict=True))
    before = report(experiment, arms | {MISSING_LABEL: earlier}).checks
    assert (before.trouble, before.unlabelled_evidence) == ((), 1.0)


def active(seed: int, often: float, rate: float, users: int = 4_000) -> Variant:
    """Users who come so often and click at such a rate, as a plan of an experiment keeps them."""
    random = np.random.default_rng(seed)
    made = Accumulator("hit_rate", "ctr", intervals=Intervals(), experiment=True)
    impressions, users_of = (
        ["a", "b"],
        np.repeat(np.arange(users), random.poisson(often, users) + 1),
    )
    clicks = random.random(users_of.size) < rate
    made.update_many(
        Event(
            recommendations=impressions, interactions=["a"] if click else [], user=f"{seed}-{user}"
        )
        for user, click in zip(users_of.tolist(), clicks.tolist(), strict=True)
    )
    sums = {name: present(made.groups(name)) for name in ("hit_rate", "ctr")}
    return Variant(sums, present(made.audience), activity(made.table, [0]))


def test_more_visits_are_a_metric_and_a_note() -> None:
    control = active(1, 3.0, 0.2)
    arms = {"control": control, "treatment": active(2, 3.8, 0.2)}
    result = report(Experiment(), arms, ["ctr", "hit_rate"])
    lists = row(result, "lists_per_user")
    assert lists.control == pytest.approx(control.audience.lists / 4_000)
    assert lists.lift == pytest.approx(0.2, abs=0.03)
    assert lists.verdict == "different"
    assert row(result, "clicks_per_user").verdict == "better"
    (note,) = result.checks.notes
    assert note.startswith(f"users of treatment come {100 * (lists.lift or 0):.1f} % more often")
    assert report(Experiment(), arms | {"treatment": active(3, 3.0, 0.2)}).checks.notes == ()


def test_a_metric_per_user_may_decide() -> None:
    arms = {"control": active(1, 3.0, 0.2), "treatment": active(2, 3.0, 0.3)}
    chosen = Experiment(primary=["clicks_per_user"], guardrails={"lists_per_user": -0.05})
    chosen.check([parse("ctr")])
    comparison = row(report(chosen, arms, ["ctr"]), "clicks_per_user")
    assert (comparison.primary, comparison.verdict) == (True, "better")


def test_metrics_per_user_of_a_sample_are_estimates_of_all() -> None:
    """Their error contains that of the sample."""
    total = active(4, 3.0, 0.2)
    retained = total._replace(audience=total.audience.below(2**63))
    arms = {"control": retained, "treatment": active(5, 3.0, 0.2)}
    comparison = row(report(Experiment(), arms, ["ctr"]), "lists_per_user")
    assert comparison.control == pytest.approx(4.0, rel=0.1)
    assert comparison.verdict == "not enough evidence"


def test_values_beside_a_lift_are_those_that_it_compares() -> None:
    """On a ramp, while people click less day by day, pooled values differ although no day does."""
    mood = np.array([[0.5], [0.25]])
    control = sums(mood * np.array([[1_000] * 256, [100] * 256]), [[1_000] * 256, [100] * 256])
    treatment = sums(mood * np.array([[10] * 256, [1_000] * 256]), [[10] * 256, [1_000] * 256])
    comparison = row(report(Experiment(), of_ctr(control, treatment)), "ctr")
    assert comparison.control == pytest.approx(comparison.treatment)
    assert comparison.lift == pytest.approx(0.0)


def test_a_variant_of_an_experiment_keeps_enough_users_for_a_small_imbalance() -> None:
    """With 16,384 hashes of each variant, this split looked as planned."""
    random = np.random.default_rng(6)
    users, side = np.arange(200_000), random.random(200_000) < 0.51
    arms = {}
    for name, here in (("control", side), ("treatment", ~side)):
        made = Accumulator("hit_rate", intervals=Intervals(), experiment=True)
        mine = users[here]
        ones = np.ones((mine.size, 1), np.int64)
        made.update_many(Columns(recommendations=ones, interactions=ones, users=mine))
        arms[name] = Variant({}, present(made.audience))
    problem = report(Experiment(), arms).checks.trouble
    assert [line.partition(" (")[0] for line in problem] == ["users are not split as planned"]


def test_an_embedded_accumulator_keeps_few_users() -> None:
    made = Accumulator("hit_rate", intervals=Intervals())
    ones = np.ones((50_000, 1), np.int64)
    made.update_many(Columns(recommendations=ones, interactions=ones, users=np.arange(50_000)))
    assert present(made.audience).hashes.size <= 16_384


def test_accumulators_follow_the_rule_of_missing_ids() -> None:
    """A bot without ids has 3 % of one variant's lists."""
    arms = {}
    for name, bots in (("control", 0), ("treatment", 300)):
        arms[name] = Accumulator("hit_rate", intervals=Intervals())
        arms[name].update_many(
            Event(
                recommendations=["a"],
                interactions=["a"] if number % 3 == 0 and number < 10_000 else [],
                user=f"{name}-{number % 4_000}" if number < 10_000 else None,
                event_id=f"e{number}",
            )
            for number in range(10_000 + bots)
        )
    assert compare(arms["control"], arms["treatment"], "hit_rate").verdict == "do not trust"
    assert arms["treatment"].read("hit_rate").interval is None
    assert arms["control"].read("hit_rate").interval is not None


def test_metrics_per_user_begin_with_the_first_whole_day_of_their_counts() -> None:
    """An experiment that is configured later counts lists from then on, and users of all days."""
    random = np.random.default_rng(9)
    hashes = crowd(9, 6_000)
    day = np.tile(np.arange(4), 1_500)
    lists = np.zeros((4, 256), np.int64)
    np.add.at(lists, (day, (hashes % 256).astype(np.int64)), 2)
    lists[1] //= 2
    retained = GroupSums(np.arange(1, 4), random.random((3, 256)), lists[1:])
    arms = {}
    for name, seed in (("control", 1), ("treatment", 2)):
        who = audience(hashes ^ np.uint64(seed << 32), days=(day, day))
        who = who._replace(
            days=np.arange(4), list_counts=lists.sum(axis=1), nameless=np.zeros(4, np.int64)
        )
        arms[name] = Variant({}, who, Activity(retained, np.zeros((3, 256))))
    result = report(Experiment(), arms, ["ctr"])
    assert row(result, "lists_per_user").control == pytest.approx(2.0)
    (note,) = result.checks.notes
    assert note.startswith("lists_per_user and clicks_per_user count from 1970-01-03 on")
