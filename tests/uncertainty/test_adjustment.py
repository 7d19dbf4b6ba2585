"""Values adjusted by what users did before the experiment."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from streameval import Intervals, PrePeriod
from streameval.accumulator import plan
from streameval.analyses.experiments.adjustment import adjust
from streameval.analyses.experiments.analysis import EXPERIMENTS
from streameval.analyses.experiments.comparison import Settings, contrast_of, judge
from streameval.analyses.experiments.course import lift_error
from streameval.analyses.experiments.report import Report
from streameval.analyses.experiments.settings import Experiment
from streameval.analyses.listed import Configuration
from streameval.config.pipeline import new_ingest
from streameval.decoding.fields import EventFields
from streameval.engine.capture import ingest_snapshot
from streameval.engine.ingest import Ingest
from streameval.evaluation.partials import Counter, backfill
from streameval.events.records import Partition
from streameval.inference.contrasts import Contrast, contrasts
from streameval.inference.interval_formulas import standard_error
from streameval.sources.options import SimulatorOptions
from streameval.statistics.intervals import GroupSums
from streameval.statistics.users import EXPERIMENT_USERS
from tests.batches import batch_of
from tests.present import present

GROUPS = 16


class Golden(NamedTuple):
    """Counts of one arm that anybody can write down.

    Attributes:
        metric: by day and group.
        clicks: before the experiment over users, by first day and group.
        lists: likewise.
    """

    metric: GroupSums
    clicks: GroupSums
    lists: GroupSums

    @classmethod
    def of(cls, arm: int) -> Golden:
        day, group = np.meshgrid(np.arange(3), np.arange(GROUPS), indexing="ij")
        counts = 40 + (7 * day + 11 * group + 5 * arm) % 23
        values = counts * (3 + (5 * group + 3 * day + 2 * arm) % 7) // 40
        first, group = np.meshgrid(np.arange(2), np.arange(GROUPS), indexing="ij")
        users = (10 + (3 * group + 5 * arm + 4 * first) % 7) * (1 + 2 * arm * first)
        clicks = users * (8 + (5 * group + 2 * arm + 3 * first) % 7) // 4
        lists = users * (10 + (4 * group + arm) % 5)
        return cls(
            GroupSums(np.arange(3), values.astype(float), counts),
            GroupSums(np.arange(2), clicks.astype(float), users),
            GroupSums(np.arange(2), lists.astype(float), users),
        )


def golden() -> tuple[Golden, Golden]:
    return Golden.of(0), Golden.of(1)


def adjusted_golden() -> tuple[Contrast, Contrast]:
    """Before and after."""
    control, treatment = golden()
    (raw,) = contrasts(control.metric, treatment.metric)
    covariates = [
        contrasts(control.clicks, treatment.clicks)[0],
        contrasts(control.lists, treatment.lists)[0],
    ]
    users = [int(arm.clicks.denominators.sum()) for arm in (control, treatment)]
    return raw, adjust(raw, covariates, users[1] / sum(users))


def exactly(*values: float) -> object:
    return pytest.approx(values, abs=1e-9, rel=1e-9)


def test_the_golden_values() -> None:
    raw, adjusted = adjusted_golden()
    error = standard_error(raw.treatment.moves - raw.control.moves)
    assert (raw.control.value, raw.treatment.value, raw.groups, error) == exactly(
        0.143131477311, 0.141436124013, 14.9674988456, 0.00901969341764
    )
    values = adjusted.control.value, adjusted.treatment.value
    error = standard_error(adjusted.treatment.moves - adjusted.control.moves)
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
    pairs = [
        GroupSums(arm.clicks.days, arm.clicks.numerators, arm.lists.numerators) for arm in golden()
    ]
    row = judge(contrast_of(*pairs), Settings("anytime", 0.02, 0.95))
    assert (present(row.control), present(row.treatment), row.groups, row.evidence) == exactly(
        0.230046366401, 0.229096793272, 14.6800183481, 0.787016761383
    )


DAY = 86_400
SINCE = date(2026, 3, 1)
BEGIN = 1_772_323_200
"""The first second of it."""

LOG = Partition("events", 0)


def visits(
    users: int = 900, *, seed: int = 1, days: int = 7, before: int = 10, more: float = 0.0
) -> Iterator[dict[str, Any]]:
    """Lists before and after an experiment begins; users click as they did before.

    `before`: days, in which lists have no variant. `more`: part of b's users who click every item
    before the experiment alone.
    """
    random = np.random.default_rng(seed)
    taste = random.beta(0.6, 3.0, users)
    often = 0.1 + random.exponential(0.4, users)
    for day in range(-before, days):
        for user in np.flatnonzero(random.random(users) < often).tolist():
            treated = user % 2 == 1
            eager = day < 0 and treated and user < more * users
            clicks = random.random(3) < (1.0 if eager else taste[user])
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
    monkeypatch.setattr(plan, "EXPERIMENT_USERS", most)
    events = list(visits())
    ingest, draw = counted(events), random.Random(3)
    found = report_of(ingest)
    rows = {row.metric: row for row in found.rows}
    assert present(rows["hit_rate@2"].narrower) > (0.2 if most > 900 else 0.0)
    shuffled = counted(draw.sample(events, len(events)))
    assert users_bytes(shuffled) == users_bytes(ingest)
    assert report_of(shuffled) == found
    assert report_of(counted(events, partitions=3)) == found
    restored = new_ingest(configuration())
    sections = {each.name: b"".join(each.content()()) for each in ingest.sections(LOG)}
    restored.restore(LOG, ingest.positions, sections)
    assert report_of(restored) == found
    assert users_bytes(restored) == users_bytes(ingest)
    other = new_ingest(configuration(since=date(2026, 3, 2)))
    other.restore(LOG, ingest.positions, sections)
    assert report_of(other).checks.adjustment == (
        "Not adjusted by what users did before: the days before 2026-03-02 were not counted."
    )


def test_the_days_before_may_be_counted_elsewhere_and_merged() -> None:
    """As Spark does: rows of the days before, in parts, and a daemon that began with them."""
    events = list(visits())
    whole = counted(events)
    ingest = counted(event for event in events if event["ts"] >= BEGIN)
    assert report_of(ingest).checks.adjustment == (
        "Not adjusted by what users did before: the days before 2026-03-01 were not counted."
    )
    past = [event for event in events if event["ts"] < BEGIN]
    period = PrePeriod(since=SINCE, metrics=("hit_rate@2",))
    counter = Counter(
        *configuration().metrics,
        by=["variant", "country"],
        intervals=Intervals(),
        depth=whole_depth(),
        ids="text",
        experiment=period,
    )
    rows = [row for part in (past[::2], past[1::2]) for row in counter.rows([_arrow(part)])]
    ingest.merge(LOG, backfill(rows, ["variant", "country"]))
    assert users_bytes(ingest) == users_bytes(whole)
    assert report_of(ingest).rows == report_of(whole).rows


def whole_depth() -> int | None:
    return configuration().kept_depth() or 0


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
