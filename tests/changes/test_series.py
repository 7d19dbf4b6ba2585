"""The series of a stream: what is compared with what, and that only closed days matter."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import count
from random import Random
from typing import Any

import numpy as np
import pytest

from streameval import ChangeSettings, Intervals
from streameval.analyses.changes.analysis import CHANGES
from streameval.analyses.changes.reader import families_in, watched_series
from streameval.analyses.changes.report import Change
from streameval.config import Config
from streameval.config.config import with_analyses
from streameval.config.pipeline import new_ingest
from streameval.config.tables import MetricOptions
from streameval.decoding.decode import Decoder
from streameval.decoding.fields import EventFields
from streameval.engine.analysis import Configured, UnreadPartitions
from streameval.engine.capture import lifetimes_of
from streameval.engine.ingest import EventFrontend, Ingest
from streameval.events.records import Partition
from streameval.sources.settings import SimulatorOptions
from tests.batches import batch_of
from tests.changes.events import DAY, FIRST, events
from tests.engine.counting import Taking, layout

SETTINGS = ChangeSettings(label="variant", rollouts="model")
LABELS = ("variant", "model")
WATCHED = (Configured(CHANGES, SETTINGS),)
SHAPE = layout(["ctr", "value_per_list"], LABELS, intervals=Intervals(), analyses=WATCHED)
FIELDS = EventFields(time="ts", time_unit="s")

Record = dict[str, Any]


@cache
def log() -> list[Record]:
    return list(events())


def ingest(partitions: Iterable[Sequence[Record]], size: int = 700) -> Ingest:
    """These records of each partition, read in turns."""
    counting = Ingest(EventFrontend(Decoder(FIELDS, LABELS), SHAPE))
    count_more(counting, partitions, size)
    return counting


def count_more(
    counting: Ingest, partitions: Iterable[Sequence[Record]], size: int = 700, start: int = 0
) -> None:
    rows = [[json.dumps(record).encode() for record in records] for records in partitions]
    for at in range(0, max(map(len, rows)), size):
        for number, lines in enumerate(rows):
            if part := lines[at : at + size]:
                counting.apply(batch_of(Partition("events", number), part, start + at))


def snapshot_changes(counting: Ingest) -> list[Change]:
    """The changes of the first snapshot that has them."""
    return next_changes(Taking(counting, LABELS))


def next_changes(taking: Taking, unread: int = 0) -> list[Change]:
    snapshots = (taking.take(unread=UnreadPartitions(unread)) for _ in count())
    reports = (CHANGES.report_in(snapshot.findings) for snapshot in snapshots)
    report = next(report for report in reports if report is not None)
    return list(report.changes)


def test_order_partitions_and_batches_change_no_bit() -> None:
    alone = snapshot_changes(ingest([log()]))
    assert {change.slice: change.verdict for change in alone if change.metric == "ctr"}["b"] == (
        "worse"
    )
    shuffled = log().copy()
    Random(3).shuffle(shuffled)
    by_user = [[row for row in shuffled if int(row["user"][1:]) % 2 == half] for half in (0, 1)]
    assert snapshot_changes(ingest(by_user, size=97)) == alone


def test_who_takes_partitions_over_forgets_what_the_users_before_showed() -> None:
    rows = sorted(log(), key=lambda row: row["ts"])
    by_user = [[row for row in rows if int(row["user"][1:]) % 3 // 2 == half] for half in (0, 1)]
    counting = ingest([by_user[0]])
    taking = Taking(counting, LABELS)
    alone = next_changes(taking, unread=1)
    assert {change.verdict for change in alone} == {"do not trust"}
    count_more(counting, [[], by_user[1]])
    assert next_changes(taking) == snapshot_changes(ingest([rows]))


def test_logs_read_one_after_the_other_say_what_logs_read_together_say() -> None:
    """What is judged while a backlog is read must not stay when all of it is read."""
    rows = sorted(log(), key=lambda row: row["ts"])
    by_user = [[row for row in rows if int(row["user"][1:]) % 3 == part] for part in range(3)]
    few = [row for row in by_user[2] if row["ts"] < FIRST + 20 * DAY]
    together = snapshot_changes(ingest([*by_user[:2], few]))
    counting = ingest([by_user[0]])
    taking = Taking(counting, LABELS)
    assert next_changes(taking) != together
    for partitions in ([[], by_user[1]], [[], [], few]):
        for stop in range(0, max(map(len, partitions)) + 400, 400):
            count_more(counting, [rows[stop : stop + 400] for rows in partitions], start=stop)
            taking.take()
    # A look takes a few snapshots, and that which is under way is of earlier counts.
    assert [next_changes(taking) for _ in range(4)][-1] == together


@pytest.mark.parametrize(("age", "until"), [(60, "2026-02-03"), (DAY, "2026-02-04")])
def test_a_day_is_open_while_a_log_of_few_records_is_in_it(age: int, until: str) -> None:
    """They are fewer than the voters of a final clock; a day later nobody waits for them."""
    midnight = FIRST + 35 * DAY
    rows = sorted(log(), key=lambda row: row["ts"])
    few = [row | {"ts": midnight - age} for row in rows[:5]]
    rows = [row for row in rows if row["ts"] < midnight + DAY // 2]
    assert {str(change.until) for change in snapshot_changes(ingest([rows, few]))} == {until}


def test_the_open_day_changes_nothing_although_its_lists_have_no_clicks_yet() -> None:
    last = FIRST + 35 * DAY
    before = [row for row in log() if row["ts"] < last]
    noon = [row | {"interactions": []} for row in log() if last <= row["ts"] < last + DAY // 2]
    # The clock follows when some records agree on a time.
    closed = snapshot_changes(ingest([[*before, *noon[:30]]]))
    assert snapshot_changes(ingest([[*before, *noon]])) == closed
    assert {str(change.until) for change in closed} == {"2026-02-04"}


def test_a_metric_is_watched_once_and_its_audience_is_held_where_it_is_counted_by_it() -> None:
    """The total is that without the segment: one by it may be folded, or lack the metric."""
    settings = ChangeSettings(label="variant", mix="country")
    config = Config(
        metrics=["ctr"],
        metric=[MetricOptions(name="mrr", segments=[])],
        labels=["variant"],
        segments=["country"],
        max_series=3,
        intervals=Intervals(),
        event=FIELDS,
        source=SimulatorOptions(),
    )
    counting = new_ingest(with_analyses(config, [Configured(CHANGES, settings)]))
    count_more(counting, [log()[:2_000]])
    families = families_in(lifetimes_of(counting, ["variant"]), settings)
    watched = list(watched_series(families, settings))
    assert [(series.metric, series.slice, bool(series.arm.strata)) for series in watched] == [
        (metric, value, metric == "ctr") for metric in ("ctr", "mrr") for value in (None, "a", "b")
    ]


def test_metrics_are_watched_with_and_without_the_audience_as_a_label() -> None:
    config = Config(
        metrics=["ctr"],
        metric=[MetricOptions(name="mrr", labels=["variant"])],
        labels=["variant", "country"],
        intervals=Intervals(),
        event=FIELDS,
        source=SimulatorOptions(),
    )
    counting = new_ingest(config)
    count_more(counting, [log()[:2_000]])
    settings = ChangeSettings(mix="country")
    families = families_in(lifetimes_of(counting, config.labels), settings)
    assert [
        (series.metric, bool(series.arm.strata)) for series in watched_series(families, settings)
    ] == [("ctr", True), ("mrr", False)]


def test_the_others_are_everything_without_a_slice() -> None:
    chance = Random(4)
    rows = [
        row | {"ts": FIRST + DAY * int(day * (2 if row["variant"] == "b" else 1)), "model": model}
        for row, day, model in (
            (row, chance.uniform(0, 70), chance.choice(["m1", "m2", "m3"])) for row in log()[:6_000]
        )
    ]
    rows.sort(key=lambda row: row["ts"])
    (family,) = families_in(lifetimes_of(ingest([rows]), LABELS), SETTINGS)
    assert len(family.sums(family.metrics[0], family.slices).days) == 90
    for metric in family.metrics:
        for first, stop in ((0, 1), (1, 3), (3, 6), (0, len(family.slices))):
            some = family.slices[first:stop]
            rest = [number for number in family.slices if number not in some]
            sums, direct = family.sums(metric, family.slices, some), family.sums(metric, rest)
            for part, other in zip(sums, direct, strict=True):
                np.testing.assert_array_equal(part, other)
