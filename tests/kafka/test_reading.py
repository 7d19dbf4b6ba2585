from __future__ import annotations

import time
from contextlib import closing
from datetime import UTC, datetime

import pytest
from kafka import KafkaProducer

from streameval.events.errors import ConfigError, SourceError
from streameval.events.records import Partition
from streameval.sources.kafka.source import KafkaSource
from streameval.testing.broker import Broker
from tests.effort import PATIENCE
from tests.kafka.topics import (
    admin_of,
    awaited,
    by_partition,
    create,
    drained,
    fill,
    filled,
    on_each_client,
    on_each_client_at_night,
    opened,
    options,
    shortened,
)

pytestmark = pytest.mark.kafka

RECORDS = [b'{"user": "u%d"}' % number for number in range(50)]


@on_each_client
def test_partitions_of_several_topics_are_read_completely(broker: Broker) -> None:
    records: dict[int, list[bytes | None]] = {0: [*RECORDS], 1: [], 2: [b"a", None, b"c"]}
    first, second = filled(broker, records), filled(broker, {0: RECORDS[:7]})
    with opened(options(broker, first, second)) as source:
        batches = drained(source, 50 + 3 + 7)
        ends = source.status.ends
    expected = {Partition(first, number): values for number, values in records.items() if values}
    assert by_partition(batches) == {**expected, Partition(second, 0): RECORDS[:7]}
    # An empty partition has a position before its first record.
    assert {batch.partition: batch.next_offset for batch in batches} == ends
    assert ends[Partition(first, 1)] == 0


@on_each_client
def test_compressed_records_are_read_unchanged(broker: Broker) -> None:
    topic, kinds = create(broker), ("gzip", "snappy", "lz4", "zstd")
    for compression in kinds:
        fill(broker, topic, {0: RECORDS}, compression_type=compression)
    with opened(options(broker, topic)) as source:
        records = by_partition(drained(source, 50 * len(kinds)))
    assert records == {Partition(topic, 0): RECORDS * len(kinds)}


@on_each_client
def test_a_poll_that_has_no_time_left_returns(broker: Broker) -> None:
    topic = filled(broker, {0: RECORDS})
    with opened(options(broker, topic)) as source:
        drained(source, 50)
        for _ in range(5):
            source.poll(-0.1)


@on_each_client_at_night
def test_reading_without_a_group_takes_no_partitions_and_commits_nothing(
    broker: Broker,
) -> None:
    topic = filled(broker, {0: RECORDS})
    settings = options(broker, topic, group=topic)
    with opened(settings) as first, opened(settings) as second:
        assert by_partition(drained(first, 50)) == by_partition(drained(second, 50))
        with admin_of(broker) as admin:
            groups = [group["group_id"] for group in admin.list_groups()]
            mine_alone = [group for group in groups if group.startswith(f"{topic}-")]
            committed = admin.list_group_offsets(dict.fromkeys(mine_alone))
    assert topic not in groups
    assert len(mine_alone) == 2
    assert not any(committed.values())


@on_each_client
def test_a_record_has_its_time_its_key_and_its_headers(broker: Broker) -> None:
    topic = filled(broker, {0: [b"bad"], 1: []})
    sent = [[("trace", b"1"), ("trace", b"2")], [("span", b"3")], []]
    with closing(KafkaProducer(bootstrap_servers=broker.bootstrap_servers)) as producer:
        for number, headers in enumerate(sent):
            producer.send(
                topic, b"good", key=b"k", partition=0, headers=headers, timestamp_ms=1000 + number
            )
    with opened(options(broker, topic)) as source:
        batches = [batch for batch in drained(source, 4) if batch.values]
    places = [(batch, index) for batch in batches for index in range(len(batch.values))]
    keys = [batch.keys[index] for batch, index in places if batch.keys is not None]
    headers_read = [[*batch.headers(index)] for batch, index in places if batch.headers is not None]
    assert [time for batch in batches for time in batch.timestamps or ()][1:] == [1000, 1001, 1002]
    assert keys == [None, b"k", b"k", b"k"]
    assert headers_read[:2] == [[], [("trace", b"1"), ("trace", b"2")]]


@on_each_client_at_night
def test_an_open_transaction_holds_back_records_and_end(broker: Broker) -> None:
    """Gaps of aborted transactions are skipped, see test_clients.py."""
    topic = filled(broker, {0: [b"a"]})
    servers = broker.bootstrap_servers
    with closing(KafkaProducer(bootstrap_servers=servers, transactional_id=topic)) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"b").get(timeout=PATIENCE)
        fill(broker, topic, {0: [b"c"]})
        with opened(options(broker, topic)) as source:
            batches = drained(source, 1)
            assert source.status.ends == {Partition(topic, 0): 1}
            producer.commit_transaction()
            batches += drained(source, 2)
    assert by_partition(batches) == {Partition(topic, 0): [b"a", b"b", b"c"]}


@on_each_client_at_night
def test_latest_reads_only_later_records(broker: Broker) -> None:
    topic = filled(broker, {0: [b"old"] * 5, 1: [b"old"]})
    with opened(options(broker, topic, start="latest")) as source:
        awaited(source, None)
        fill(broker, topic, {0: [b"new"]})
        batches = drained(source, 1)
    assert by_partition(batches) == {Partition(topic, 0): [b"new"]}
    assert batches[-1].offsets == [5]


@on_each_client_at_night
def test_a_start_time_reads_records_written_at_or_after_it(broker: Broker) -> None:
    topic = filled(broker, {0: [b"before"], 1: [b"before"]})
    time.sleep(0.01)
    start = datetime.now(UTC).isoformat()
    time.sleep(0.01)
    fill(broker, topic, {0: [b"after"]})
    with opened(options(broker, topic, start=start)) as source:
        assert by_partition(drained(source, 1)) == {Partition(topic, 0): [b"after"]}
        awaited(source, None)


@on_each_client_at_night
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


@on_each_client_at_night
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


@pytest.mark.parametrize("start", ["yesterday", "2026-01-31T08:00:00", "1900-01-01T00:00:00Z", ""])
def test_an_invalid_start_is_rejected(start: str) -> None:
    with pytest.raises(ConfigError, match=r"^start: found '.*give .earliest."):
        KafkaSource(options("127.0.0.1:1", "topic", start=start), {}, shared=False)
