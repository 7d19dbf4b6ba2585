from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest

from streameval.errors import ConfigError, SourceError
from streameval.events.records import Partition
from streameval.sources.kafka.source import KafkaSource
from streameval.testing.broker import Broker
from tests.effort import every_case
from tests.kafka.topics import (
    awaited,
    by_partition,
    create,
    drained,
    fill,
    filled,
    on_each_client,
    opened,
    options,
    shortened,
)

pytestmark = pytest.mark.kafka


@on_each_client
def test_latest_reads_only_later_records(broker: Broker) -> None:
    topic = filled(broker, {0: [b"old"] * 5, 1: [b"old"]})
    with opened(options(broker, topic, start="latest")) as source:
        awaited(source, None)
        fill(broker, topic, {0: [b"new"]})
        batches = drained(source, 1)
    assert by_partition(batches) == {Partition(topic, 0): [b"new"]}
    assert batches[-1].offsets == [5]


@on_each_client
def test_a_start_time_reads_records_written_at_or_after_it(broker: Broker) -> None:
    topic = filled(broker, {0: [b"before"], 1: [b"before"]})
    time.sleep(0.01)
    start = datetime.now(UTC).isoformat()
    time.sleep(0.01)
    fill(broker, topic, {0: [b"after"]})
    with opened(options(broker, topic, start=start)) as source:
        assert by_partition(drained(source, 1)) == {Partition(topic, 0): [b"after"]}
        awaited(source, None)


@on_each_client
@pytest.mark.parametrize(
    ("offset", "says"),
    [(4, "the topic ends at 3"), (1, "the topic now begins at 2: 1 records were deleted unread")],
)
def test_a_position_outside_the_log_is_rejected(broker: Broker, offset: int, says: str) -> None:
    topic = filled(broker, {0: [b"a", b"b", b"c"]})
    shortened(broker, topic, 2)
    with (
        opened(options(broker, topic), {Partition(topic, 0): offset}) as source,
        pytest.raises(SourceError, match=says) as raised,
    ):
        awaited(source, "never")
    assert raised.value.where == f"{topic}[0]"
    assert "restart from `start`" in raised.value.remedy


@on_each_client
def test_earliest_begins_after_deleted_records(broker: Broker) -> None:
    topic = filled(broker, {0: [b"a", b"b", b"c"]})
    shortened(broker, topic, 2)
    with opened(options(broker, topic)) as source:
        batches = drained(source, 1)
    assert [offset for batch in batches for offset in batch.offsets] == [2]


@on_each_client
def test_records_deleted_while_reading_are_an_error(broker: Broker) -> None:
    topic = create(broker)
    with opened(options(broker, topic)) as source:
        awaited(source, None)
        # A client may fetch records before anybody polls for them.
        source.pause([Partition(topic, 0)])
        fill(broker, topic, {0: [b"a", b"b", b"c"]})
        shortened(broker, topic, 2)
        source.pause([])
        with pytest.raises(SourceError, match="offset 0 is no longer in the log") as raised:
            drained(source, 1)
    assert raised.value.where == f"{topic}[0]"
    assert "retention" in raised.value.remedy


@every_case("start", ["yesterday", "2026-01-31T08:00:00", "1900-01-01T00:00:00Z", ""])
def test_an_invalid_start_is_rejected(start: str) -> None:
    with pytest.raises(ConfigError, match=r"source: start: found '.*give .earliest."):
        KafkaSource(options("127.0.0.1:1", "topic", start=start), {}, shared=False)
