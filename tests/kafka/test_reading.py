from __future__ import annotations

from contextlib import closing

import pytest
from kafka import KafkaAdminClient, KafkaProducer

from streameval.events.records import Origin, Partition
from streameval.testing.broker import Broker
from tests.effort import PATIENCE
from tests.kafka.topics import (
    by_partition,
    create,
    drained,
    fill,
    filled,
    on_each_client,
    opened,
    options,
)

pytestmark = pytest.mark.kafka

RECORDS = [b'{"user": "u%d"}' % number for number in range(50)]


@on_each_client
def test_partitions_of_several_topics_are_read_completely(broker: Broker) -> None:
    records: dict[int, list[bytes | None]] = {0: [*RECORDS], 1: [], 2: [b"a", None, b"c"]}
    first, second = filled(broker, records), filled(broker, {0: RECORDS[:7]})
    with opened(options(broker, first, second)) as source:
        batches = drained(source, 50 + 3 + 7)
        ends = source.end_offsets()
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
        found = by_partition(drained(source, 50 * len(kinds)))
    assert found == {Partition(topic, 0): RECORDS * len(kinds)}


@on_each_client
def test_a_poll_that_has_no_time_left_returns(broker: Broker) -> None:
    topic = filled(broker, {0: RECORDS})
    with opened(options(broker, topic)) as source:
        drained(source, 50)
        for _ in range(5):
            source.poll(-0.1)


@on_each_client
def test_reading_without_a_group_takes_no_partitions_and_commits_nothing(
    broker: Broker,
) -> None:
    topic = filled(broker, {0: RECORDS})
    mine = options(broker, topic, group=topic)
    with opened(mine) as first, opened(mine) as second:
        assert by_partition(drained(first, 50)) == by_partition(drained(second, 50))
        with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)) as admin:
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
    places = [(batch, place) for batch in batches for place in range(len(batch.values))]
    origins = [batch.origin(place) for batch, place in places if batch.origin is not None]
    assert [time for batch in batches for time in batch.timestamps or ()][1:] == [1000, 1001, 1002]
    assert origins[0] == Origin(None, [])
    assert origins[1] == Origin(b"k", [("trace", b"1"), ("trace", b"2")])


@on_each_client
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
            assert source.end_offsets() == {Partition(topic, 0): 1}
            producer.commit_transaction()
            batches += drained(source, 2)
    assert by_partition(batches) == {Partition(topic, 0): [b"a", b"b", b"c"]}
