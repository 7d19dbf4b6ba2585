from __future__ import annotations

import pytest

from streameval.accumulator import Accumulator
from streameval.pipeline.decode import Decoder
from streameval.pipeline.fields import EventFields
from streameval.pipeline.ingest import Ingest
from streameval.pipeline.invalid import REASONS
from streameval.pipeline.snapshot import Snapshot
from streameval.pipeline.snapshots import Snapshots
from streameval.records import Partition
from tests.pipeline.test_ingest import FIELDS, batch, record


def new() -> Accumulator:
    return Accumulator("ctr", "hit_rate@1", "distinct_items@1")


@pytest.fixture
def ingest() -> Ingest[Accumulator]:
    return Ingest(Decoder(FIELDS, ["variant"]), new)


def snapshots(of: Ingest[Accumulator]) -> Snapshots[Accumulator]:
    return Snapshots(of, source="events", label_names=["variant"], started_at=100.0)


def take(of: Snapshots[Accumulator], trouble: str | None = None) -> Snapshot:
    return of.take(now=200.0, ends={Partition("events", 0): 9}, ready=True, trouble=trouble)


def test_before_the_first_record_there_is_no_series_and_every_reason_is_at_zero(
    ingest: Ingest[Accumulator],
) -> None:
    taken = take(snapshots(ingest))
    assert taken.series == ()
    assert taken.health.invalid == dict.fromkeys(REASONS, 0)
    assert taken.health.partitions == ()


def test_series_stand_by_metric_as_configured_and_then_by_label(
    ingest: Ingest[Accumulator],
) -> None:
    ingest.apply(batch([record(variant="b"), record(variant="a", interactions=["a"])]))
    ingest.apply(batch([record(variant="c")], number=1))
    series = take(snapshots(ingest)).series
    assert [(each.metric.text, *each.labels) for each in series] == [
        (metric, label)
        for metric in ("ctr", "hit_rate@1", "distinct_items@1")
        for label in ("a", "b", "c")
    ]
    assert [each.reading.value for each in series[:3]] == [1.0, 0.0, 0.0]


def test_health_says_what_became_of_the_records(ingest: Ingest[Accumulator]) -> None:
    ingest.apply(batch([record(ts=2), record(ts=1), None, b"x"]))
    health = take(snapshots(ingest)).health
    assert (health.consumed, health.valid, health.tombstones) == (4, 2, 1)
    assert health.invalid["not_json"] == 1
    (partition,) = health.partitions
    assert (partition.position, partition.end, partition.lag) == (4, 9, 5)
    assert partition.event_time == 2_000_000


def test_versions_grow_and_a_taken_snapshot_stays_as_it_is(ingest: Ingest[Accumulator]) -> None:
    of = snapshots(ingest)
    ingest.apply(batch([record()]))
    first = take(of)
    ingest.apply(batch([record(), b"x"], start=1))
    second = take(of)
    assert (first.version, second.version) == (1, 2)
    assert (first.series[0].reading.lists, second.series[0].reading.lists) == (1, 2)
    assert (first.health.invalid["not_json"], second.health.invalid["not_json"]) == (0, 1)


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_slice_that_did_not_change_is_not_read_again(
    ingest: Ingest[Accumulator], partitions: int
) -> None:
    for number in range(partitions):
        ingest.apply(batch([record(variant="a"), record(variant="b")], number=number))
    of = snapshots(ingest)
    before = take(of).series
    again = take(of).series
    assert all(new is old for new, old in zip(again, before, strict=True))
    ingest.apply(batch([record(variant="b")], start=2))
    changed = take(of).series
    assert changed[0] is before[0]
    assert changed[1].reading.lists == before[1].reading.lists + 1


def test_ids_of_two_kinds_are_advised_about_with_their_slice(ingest: Ingest[Accumulator]) -> None:
    of = snapshots(ingest)
    ingest.apply(batch([record(interactions=["z"])] * 10_000))
    assert "variant=a: 10,000 lists" in (take(of).health.trouble or "")
    assert take(of, trouble="the broker is away").health.trouble == "the broker is away"


def test_a_stream_without_labels_has_one_series_a_metric() -> None:
    ingest = Ingest(Decoder(EventFields(), []), new)
    ingest.apply(batch([record()]))
    taken = Snapshots(ingest, source="events", label_names=[], started_at=0.0).take(
        now=1.0, ends={}, ready=False
    )
    assert [(each.metric.text, each.labels) for each in taken.series] == [
        ("ctr", ()),
        ("hit_rate@1", ()),
        ("distinct_items@1", ()),
    ]
    assert not taken.health.ready
