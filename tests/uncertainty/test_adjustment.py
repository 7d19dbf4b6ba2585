"""Values adjusted by what users did before the experiment."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from streameval import Accumulator, Intervals, PrePeriod, compare
from streameval import plan as plan_of
from streameval.accumulator.kinds import experiment
from streameval.analyses.experiments.adjustment import adjust
from streameval.analyses.experiments.analysis import EXPERIMENTS
from streameval.analyses.experiments.comparison import Settings, contrast_of, judge
from streameval.analyses.experiments.course import lift_error
from streameval.analyses.experiments.reader import before_in, variants_in
from streameval.analyses.experiments.sample_ratio import treated_before
from streameval.analyses.experiments.settings import Experiment
from streameval.analyses.experiments.statistics import compare_with_control
from streameval.analyses.experiments.verdicts import Report
from streameval.analyses.registry import Configuration
from streameval.config.pipeline import new_ingest
from streameval.decoding.fields import EventFields
from streameval.engine.backfill import Backfill
from streameval.engine.capture import ingest_snapshot, lifetimes_of
from streameval.engine.ingest import Ingest
from streameval.evaluation import partials
from streameval.evaluation.partials import backfill
from streameval.events.records import Partition
from streameval.inference.contrasts import Contrast, contrasts
from streameval.inference.interval_formulas import normal_quantile, standard_error, student_reach
from streameval.sources.settings import SimulatorOptions
from streameval.statistics.arrays import FloatArray
from streameval.statistics.intervals import Audience, GroupSums
from streameval.statistics.limits import EXPERIMENT_USERS
from streameval.statistics.users import user_hashes
from tests.batches import batch_of
from tests.cli.program import json_lines
from tests.crowds import audience
from tests.effort import sampled
from tests.present import present

GROUPS = 16


def golden(arm: int) -> tuple[GroupSums, GroupSums, GroupSums]:
    """Counts of one arm that anybody can write down.

    Those of the metric, by day and group; and clicks and lists before the experiment over users, by
    first day and group.
    """
    day, group = np.meshgrid(np.arange(3), np.arange(GROUPS), indexing="ij")
    counts = 40 + (7 * day + 11 * group + 5 * arm) % 23
    values = counts * (3 + (5 * group + 3 * day + 2 * arm) % 7) // 40
    first, group = np.meshgrid(np.arange(2), np.arange(GROUPS), indexing="ij")
    users = (10 + (3 * group + 5 * arm + 4 * first) % 7) * (1 + 2 * arm * first)
    clicks = users * (8 + (5 * group + 2 * arm + 3 * first) % 7) // 4
    lists = users * (10 + (4 * group + arm) % 5)
    return (
        GroupSums(np.arange(3), values.astype(float), counts),
        GroupSums(np.arange(2), clicks.astype(float), users),
        GroupSums(np.arange(2), lists.astype(float), users),
    )


def adjusted_golden() -> tuple[Contrast, Contrast]:
    """Before and after."""
    metric, *before = zip(golden(0), golden(1), strict=True)
    (raw,) = contrasts(*metric)
    users = [int(arm.denominators.sum()) for arm in before[0]]
    return raw, adjust(raw, [contrasts(*pair)[0] for pair in before], users[1] / sum(users))


def exactly(*values: float) -> object:
    return pytest.approx(values, abs=1e-9, rel=1e-9)


def test_the_golden_values() -> None:
    raw, adjusted = adjusted_golden()
    error = standard_error(raw.treatment.influences - raw.control.influences)
    assert (raw.control.value, raw.treatment.value, raw.groups, error) == exactly(
        0.143131477311, 0.141436124013, 14.9674988456, 0.00901969341764
    )
    values = adjusted.control.value, adjusted.treatment.value
    error = standard_error(adjusted.treatment.influences - adjusted.control.influences)
    assert (*values, error, adjusted.groups) == exactly(
        0.143460987369, 0.141273934032, 0.00768464548751, 12.9674988456
    )
    assert (values[1] / values[0] - 1, lift_error(adjusted)) == exactly(
        -0.0152449343672, 0.0539541475313
    )


def test_the_golden_bounds() -> None:
    _, adjusted = adjusted_golden()
    fixed = judge(adjusted, Settings("fixed", 0.02, 0.95))
    assert tuple(map(present, (fixed.low, fixed.high, fixed.lift_low, fixed.lift_high))) == exactly(
        -0.0187929513252, 0.0144188446518, -0.123617716412, 0.106529145386
    )
    anytime = judge(adjusted, Settings("anytime", 0.02, 0.95))
    assert (present(anytime.lift_low), present(anytime.lift_high), anytime.evidence) == exactly(
        -0.237510950121, 0.271811758402, 0.814316583886
    )


def test_the_golden_balance() -> None:
    first, other = (
        GroupSums(clicks.days, clicks.numerators, lists.numerators)
        for _, clicks, lists in (golden(0), golden(1))
    )
    row = judge(contrast_of(first, other), Settings("anytime", 0.02, 0.95))
    assert (present(row.control), present(row.treatment), row.groups, row.evidence) == exactly(
        0.230046366401, 0.229096793272, 14.6800183481, 0.787016761383
    )


DAY = 86_400
SINCE = date(2026, 3, 1)
BEGIN = 1_772_323_200
"""The first second of it."""

LOG = Partition("events", 0)


def visits(
    users: int = 900,
    *,
    seed: int = 1,
    days: int = 7,
    before: int = 10,
    more: float = 0.0,
    forget: bool = False,
) -> Iterator[dict[str, Any]]:
    """Lists before and after an experiment begins; users click as they did before.

    `before`: days, in which lists have no variant. `more`: part of b's users who click every item
    before the experiment alone. `forget`: whether they have other tastes in it.
    """
    random = np.random.default_rng(seed)
    taste = random.beta(0.6, 3.0, users)
    often = 0.1 + random.exponential(0.4, users)
    tastes = random.permutation(taste) if forget else taste
    for day in range(-before, days):
        for user in np.flatnonzero(random.random(users) < often).tolist():
            treated = user % 2 == 1
            eager = day < 0 and treated and user < more * users
            clicks = random.random(3) < (1.0 if eager else (taste if day < 0 else tastes)[user])
            visit = {
                "ts": BEGIN + day * DAY + int(random.integers(DAY)),
                "user": f"u{user}",
                "recommendations": ["a", "b", "c"],
                "interactions": [item for item, hit in zip("abc", clicks, strict=True) if hit],
                "country": ("de", "fr")[user % 3 == 0],
            }
            yield visit | ({"variant": "b" if treated else "control"} if day >= 0 else {})


def configuration(**how: Any) -> Configuration:
    return Configuration(
        metrics=["ctr", "hit_rate@2", "value_per_list"],
        source=SimulatorOptions(),
        labels=["variant", "country"],
        event=EventFields(user="user", time="ts", time_unit="s"),
        intervals=Intervals(),
        experiment=msgspec.structs.replace(Experiment(since=SINCE, primary=["hit_rate@2"]), **how),
    )


def counted(events: Iterable[dict[str, Any]], partitions: int = 1, **how: Any) -> Ingest:
    """The events as a daemon counts them, in batches, dealt out to partitions."""
    ingest, records = new_ingest(configuration(**how)), list(map(msgspec.json.encode, events))
    for number in range(partitions):
        dealt = records[number::partitions]
        for start in range(0, len(dealt), 1_000):
            part = Partition("events", number)
            ingest.apply(batch_of(part, dealt[start : start + 1_000], start))
    return ingest


def report_of(ingest: Ingest) -> Report:
    labels = ["variant", "country"]
    snapshot = ingest_snapshot(ingest, labels=labels, now=0.0)
    return present(EXPERIMENTS.report_in(snapshot.findings))


def users_bytes(ingest: Ingest) -> bytes:
    (section,) = (each for each in ingest.sections(LOG) if each.name == "labels/users")
    return b"".join(section.content()())


@pytest.mark.parametrize("most", [EXPERIMENT_USERS, 200])
def test_any_order_split_and_restore_gives_the_same_bytes_and_values(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(experiment, "EXPERIMENT_USERS", most)
    events = list(visits())
    ingest, draw = counted(events), random.Random(3)
    report = report_of(ingest)
    rows = {row.metric: row for row in report.rows}
    assert present(rows["hit_rate@2"].narrower) > (0.2 if most > 900 else 0.0)
    shuffled = counted(draw.sample(events, len(events)))
    assert users_bytes(shuffled) == users_bytes(ingest)
    assert report_of(shuffled) == report
    assert report_of(counted(events, partitions=3)) == report
    restored = new_ingest(configuration())
    sections = {each.name: b"".join(each.content()()) for each in ingest.sections(LOG)}
    restored.restore(LOG, ingest.positions, sections)
    assert report_of(restored) == report
    assert users_bytes(restored) == users_bytes(ingest)
    other = new_ingest(configuration(since=date(2026, 3, 2)))
    other.restore(LOG, ingest.positions, sections)
    assert report_of(other).checks.adjustment == (
        "No pre-experiment adjustment (CUPED): the days before 2026-03-02 were not counted."
    )


def test_the_days_before_may_be_counted_elsewhere_and_merged() -> None:
    """As Spark does: rows of the days before, in parts, and a daemon that began with them."""
    events = list(visits())
    total = counted(events)
    ingest = counted(event for event in events if event["ts"] >= BEGIN)
    plain = report_of(ingest).checks.adjustment
    assert plain == (
        "No pre-experiment adjustment (CUPED): the days before 2026-03-01 were not counted."
    )
    past = [event for event in events if event["ts"] < BEGIN]
    parts = past[::2], past[1::2]
    ingest.merge(LOG, backfilled(parts, PrePeriod(since=SINCE, metrics=("hit_rate@2",))))
    assert users_bytes(ingest) == users_bytes(total)
    assert report_of(ingest).rows == report_of(total).rows
    without = counted(event for event in events if event["ts"] >= BEGIN)
    without.merge(LOG, backfilled(parts, experiment=True))
    assert report_of(without).checks.adjustment == plain


def backfilled(parts: Iterable[Sequence[dict[str, Any]]], experiment: bool | PrePeriod) -> Backfill:  # noqa: FBT001  as an Accumulator has it
    """Rows of the days before, as Spark counts them in parts."""
    labels = ["variant", "country"]
    counter = partials.Counter(
        *configuration().metrics,
        by=labels,
        intervals=Intervals(),
        depth=configuration().counted_depth() or 0,
        ids="text",
        experiment=experiment,
    )
    return backfill([row for part in parts for row in counter.rows([_arrow(part)])], labels)


def _arrow(events: Sequence[dict[str, Any]]) -> pa.Table:
    rows = [
        {
            "recommendations": event["recommendations"],
            "interactions": event["interactions"],
            "users": event["user"],
            "times": datetime.fromtimestamp(event["ts"], UTC),
            "variant": event.get("variant"),
            "country": event["country"],
        }
        for event in events
    ]
    return pa.Table.from_pylist(rows)


class Oracle:
    """What raw lists say, user by user, of the clicks of b and of control in a list."""

    def __init__(self, events: Sequence[dict[str, Any]], most: int) -> None:
        names = sorted({event["user"] for event in events})
        self.hashes = dict(zip(names, user_hashes(names).tolist(), strict=True))
        past = [event for event in events if BEGIN - 28 * DAY <= event["ts"] < BEGIN]
        now = [event for event in events if event["ts"] >= BEGIN]
        clicks, lists = Counter[str](), Counter[str]()
        for event in past:
            clicks[event["user"]] += len(event["interactions"])
            lists[event["user"]] += 1
        first = {(event["variant"], event["user"]) for event in now}
        arms = {arm: {user for of, user in first if of == arm} for arm in ("control", "b")}
        limit = min(self._limit(users, most) for users in (lists, *arms.values()))
        days = sorted({event["ts"] // DAY for event in now})
        x, n = np.zeros((2, 2, len(days), 256))
        for event in now:
            at = ("control", "b").index(event["variant"]), days.index(event["ts"] // DAY)
            group = self.hashes[event["user"]] % 256
            x[*at, group] += len(event["interactions"])
            n[*at, group] += len(event["recommendations"])
        # All users of an arm at once: control's have had its label for longer.
        sums, users = np.zeros((2, 2, 1, 256)), np.zeros((2, 1, 256))
        for arm, user in first:
            if self.hashes[user] >= limit:
                continue
            index = ("control", "b").index(arm), 0, self.hashes[user] % 256
            users[index] += 1
            sums[0, *index] += clicks[user]
            sums[1, *index] += lists[user]
        self.share = users[1].sum() / users.sum()
        self.known = (
            sum(self.hashes[user] < limit and lists[user] > 0 for _, user in first) / users.sum()
        )
        self.metric = self._jackknife(x, n)
        self.covariates = [self._jackknife(part, users) for part in sums]
        weights = n[0].sum(1) * n[1].sum(1) / n.sum((0, 2))
        shares = (n / n.sum(2)[:, :, None] * weights[:, None]).sum(1) / weights.sum()
        self.groups = float((1 / np.square(shares).sum(1)).min() - 1)

    def _limit(self, users: Collection[str], most: int) -> int:
        """The largest 2^64 / 2^n below which at most so many users are."""
        limit = 2**64
        while sum(self.hashes[user] < limit for user in users) > most:
            limit //= 2
        return limit

    @staticmethod
    def _jackknife(x: FloatArray, n: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The means of both arms, and minus their changes without each group."""

        def means(x: FloatArray, n: FloatArray) -> FloatArray:
            weights = n[0].sum(1) * n[1].sum(1) / n.sum((0, 2))
            by_day: FloatArray = x.sum(2) / n.sum(2)
            return np.asarray(by_day @ weights / weights.sum())

        total = means(x, n)
        return total, np.array(
            [total - means(np.delete(x, g, 2), np.delete(n, g, 2)) for g in range(256)]
        ).T

    def row(self) -> tuple[float, float, float]:
        """The adjusted values of control and b, and half the width of the difference."""
        values, moves = self.metric
        gone = np.array([each[1] - each[0] for _, each in self.covariates])
        delta = np.array([each[1] - each[0] for each, _ in self.covariates])
        weights, *_ = np.linalg.lstsq(gone.T, moves[1] - moves[0], rcond=None)
        rest = moves[1] - moves[0] - weights @ gone
        surprise = delta @ np.linalg.inv(gone @ gone.T) @ delta * 256 / 255
        left = self.groups - 2
        error = math.sqrt(255 / 256 * np.square(rest).sum())
        error *= math.sqrt((1 + surprise / left) * self.groups / left)
        half = student_reach(normal_quantile(0.025), left) * error
        shift = float(weights @ delta)
        return values[0] + self.share * shift, values[1] - (1 - self.share) * shift, half


@pytest.mark.parametrize("most", [EXPERIMENT_USERS, 420])
def test_values_follow_from_the_lists_of_each_user(
    most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With new users, days before the pre-period, control's label, a pilot, and late lists.

    More than 420 users came before, so that half of them are a sample, but fewer in each arm.
    """
    monkeypatch.setattr(experiment, "EXPERIMENT_USERS", most)
    events = [
        {"variant": ("pilot", "control")[number % 3 % 2]} | event if number % 3 else event
        for event in visits(before=31)
        for number in [int(event["user"][1:])]
        if _comes(event)
    ]
    draw = random.Random(8)
    oracle, log = Oracle(events, most), draw.sample(events, len(events))
    path = str(json_lines(tmp_path / "log.ndjson", log))
    how: Any = {"columns": {"time": "ts"}, "time_unit": "s", "since": SINCE, "primary": "ctr"}
    how["shares"] = {"control": 1, "b": 1}
    row = compare(path, "ctr", **how)["ctr"]
    control, treatment, half = oracle.row()
    assert (present(row.control), present(row.treatment)) == exactly(control, treatment)
    assert (present(row.high) - present(row.low)) / 2 == pytest.approx(half, rel=1e-9)
    assert row.lift == pytest.approx(treatment / control - 1, rel=1e-9)
    assert row.known == pytest.approx(oracle.known)
    raw = oracle.metric[0]
    assert row.raw_lift == pytest.approx(raw[1] / raw[0] - 1, rel=1e-9)
    live = counted(log, primary=["ctr"], shares=how["shares"])
    (same,) = (each for each in report_of(live).rows if each.metric == "ctr")
    assert (same.control, same.treatment, same.known) == (row.control, row.treatment, row.known)


def _comes(event: dict[str, Any]) -> bool:
    """Users of b who came before come a day late, and half of all users only come later."""
    day, user = (event["ts"] - BEGIN) // DAY, int(event["user"][1:])
    if user % 4 > 1:
        return bool(day >= 0)
    return bool(day < 0 or day > user % 2)


def labelled(events: Iterable[dict[str, Any]], of: str) -> Iterator[dict[str, Any]]:
    """The events with a label before the experiment, too.

    `of`: the label of "both" variants, of "control" or "b" alone; that of the "other" variant; or
    that of an earlier experiment, whose users were assigned "anew".
    """
    for event in events:
        user = int(event["user"][1:])
        arm, other = ("control", "b")[:: 1 if user % 2 == 0 else -1]
        earlier = ("control", "b")[user // 2 % 2]
        labels = {"both": arm, "other": other, "anew": earlier}
        label = labels.get(of, arm if arm == of else None)
        yield event | ({"variant": label} if event["ts"] < BEGIN and label is not None else {})


@pytest.mark.parametrize("of", ["nobody", "control"])
def test_each_day_is_adjusted_by_those_who_came_up_to_it_if_that_is_known(of: str) -> None:
    """Control's label from before hides who came on which day, so that all users count."""
    events = list(visits())
    log = list(labelled(events, of))
    (row,) = (row for row in report_of(counted(log, primary=["ctr"])).rows if row.metric == "ctr")
    total = Oracle(events, EXPERIMENT_USERS)
    for number in (1, 6):
        early = [event for event in events if event["ts"] < BEGIN + (number + 1) * DAY]
        oracle = Oracle(early, EXPERIMENT_USERS)
        if of == "control":
            oracle.covariates, oracle.share = total.covariates, total.share
        control, treatment, _ = oracle.row()
        assert row.days[number].lift == pytest.approx(treatment / control - 1, rel=1e-9)


_TREATED = (
    "No pre-experiment adjustment (CUPED): {} before 2026-03-01, so that data may include its "
    "effect (set `since` to the day it began, and date the shares of a ramp)."
)


@pytest.mark.parametrize("most", sampled([EXPERIMENT_USERS, 200], 2))
@pytest.mark.parametrize(
    ("of", "reason"),
    [
        ("both", "97.2 % of the users of b were in b"),
        ("b", "97.2 % of the users of b were in b"),
        ("other", "94.6 % of the users of control were in b"),
        ("anew", None),
        ("control", None),
    ],
)
def test_what_users_did_under_treatment_adjusts_nothing(
    of: str, reason: str | None, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The effect would be taken for eager users; a day that begins anew is no excuse."""
    monkeypatch.setattr(experiment, "EXPERIMENT_USERS", most)
    log = list(labelled(visits(), of))
    report = report_of(counted(log))
    assert ({row.known for row in report.rows} == {None}) is (reason is not None)
    if most > 900:
        message = report.checks.adjustment
        assert (
            message == _TREATED.format(reason) if reason else message.startswith("Values adjusted")
        )
    declared = report_of(counted(log, untreated_before=True))
    assert {row.known is None for row in declared.rows if row.lift_low is not None} == {False}


def test_users_of_an_earlier_treatment_are_counted_below_the_smallest_threshold() -> None:
    """A sample of a pilot of both arms alike, of which the small arm is whole."""
    hashes = np.sort(np.random.default_rng(5).integers(0, 2**64, 4_000, np.uint64))
    begin = SINCE.toordinal() - date(1970, 1, 1).toordinal()

    def of(users: Any, first: int, threshold: int = 2**64) -> Audience:
        users = users[users < threshold] if threshold < 2**64 else users
        days = np.full(users.size, first), np.full(users.size, first)
        return audience(users, threshold=threshold, days=days)

    control, b = of(hashes[np.arange(4_000) % 10 > 0], begin, 2**62), of(hashes[::10], begin)
    pilot = of(hashes[np.arange(4_000) // 10 % 2 == 0], begin - 9, 2**63)
    arms = {"control": control, "b": b}
    assert treated_before(arms, arms | {"pilot": pilot}, SINCE) == {}


def test_an_interval_that_is_wider_stays_adjusted() -> None:
    """A better one of the two would be chosen by chance."""
    rows = report_of(counted(visits(users=300, forget=True))).rows
    shares = [row.narrower for row in rows if row.known is not None]
    assert min(map(present, shares)) < 0
    assert len(shares) == len([row for row in rows if row.lift_low is not None])


def test_users_who_differed_before_are_not_compared() -> None:
    report = report_of(counted(visits(more=0.4)))
    (problem,) = report.checks.trouble
    assert problem.startswith("clicks per list of b's users were ")
    assert problem.endswith(
        " % higher than of control's before 2026-03-01: they were not assigned at random, or "
        "`since` is too late"
    )
    assert {row.verdict for row in report.rows} == {"do not trust"}
    assert report_of(counted(visits())).checks.trouble == ()
    (problem,) = report_of(counted(labelled(visits(more=0.4), "b"))).checks.trouble
    assert problem.endswith(
        "before 2026-03-01: `since` is too late: 97.2 % of the users of b were in b before it"
    )


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ({"since": None}, "set `since`"),
        ({"pre_period": 0}, "pre_period is 0"),
        ({"same_users": True}, "the variants share their users by design"),
        ({"since": date(2026, 1, 10)}, "the days before 2026-01-10 were not counted"),
    ],
    ids=["since", "days", "pairs", "not counted"],
)
def test_values_that_are_not_adjusted_say_why(how: dict[str, Any], reason: str) -> None:
    report = report_of(counted(visits(users=200, days=3), **how))
    assert report.checks.adjustment == f"No pre-experiment adjustment (CUPED): {reason}."
    assert {row.known for row in report.rows} == {None}


@pytest.mark.parametrize("how", [{"pre_period": 7}, {"since": date(2026, 3, 2)}], ids=str)
def test_other_days_than_those_that_a_state_keeps_adjust_nothing(how: dict[str, Any]) -> None:
    families = lifetimes_of(counted(visits()), ["variant", "country"])
    metrics, variants = variants_in(families, "variant")
    experiment = msgspec.structs.replace(Experiment(since=SINCE), **how)
    before = before_in(families, "variant")
    report = compare_with_control(experiment, metrics, variants, Intervals(), before=before)
    assert {row.known for row in report.rows} == {None}
    reason = f"the days before {experiment.since} were not counted"
    assert report.checks.adjustment == f"No pre-experiment adjustment (CUPED): {reason}."


def test_lists_without_a_user_and_few_users_adjust_nothing() -> None:
    events = list(visits(users=200, days=3))
    nameless = [
        {name: value for name, value in event.items() if name != "user"}
        if event["ts"] < BEGIN and number % 20 == 0
        else event
        for number, event in enumerate(events)
    ]
    message = report_of(counted(nameless)).checks.adjustment
    assert message.endswith(" % of the lists before 2026-03-01 have no user id.")
    few = [event for event in events if event["ts"] >= BEGIN or int(event["user"][1:]) < 30]
    assert report_of(counted(few)).checks.adjustment == (
        "No pre-experiment adjustment (CUPED): too few users are known from before 2026-03-01."
    )


def test_values_without_bounds_are_limited_in_the_past() -> None:
    """One list of 10^15 before would not fit into the sums of its user, and decide everything."""
    events = list(visits(users=400))
    events[0]["interactions"] = {"a": 1e15}
    how: Any = {"primary": ["value_per_list"]}
    rows = {row.metric: row for row in report_of(counted(events, **how)).rows}
    events[0]["interactions"] = {"a": 1024.0}
    limited = {row.metric: row for row in report_of(counted(events, **how)).rows}
    assert present(rows["value_per_list"].known) > 0.9
    assert rows["value_per_list"].control == limited["value_per_list"].control


def test_a_plan_foretells_how_many_users_fewer_are_needed() -> None:
    """From the days before alone, in which the experiment is not begun."""
    events, accumulator = list(visits(2_000, before=14)), Accumulator("ctr", intervals=Intervals())
    for event in events:
        if event["ts"] < BEGIN:
            recommended = event["recommendations"], event["interactions"]
            accumulator.update(*recommended, user=event["user"], ts=event["ts"] * 1_000_000)
    efforts = plan_of(accumulator, "ctr", lift=0.01).efforts
    shares = [present(effort.adjusted) / present(effort.users) for effort in efforts]
    report = report_of(counted(events, primary=["ctr"], pre_period=7))
    rows = {row.metric: row for row in report.rows}
    assert shares == pytest.approx([(1 - present(rows["ctr"].narrower)) ** 2] * 2, rel=0.25)
    assert max(shares) < 0.7
    alone = Accumulator("ctr", intervals=Intervals())
    for user in range(900):
        alone.update(["a"], ["a"] * (user % 3 == 0), user=f"u{user}")
    assert [effort.adjusted for effort in plan_of(alone, "ctr").efforts] == [None, None]
