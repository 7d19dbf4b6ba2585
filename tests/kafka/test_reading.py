from __future__ import annotations

from contextlib import closing

import pytest
from kafka import KafkaAdminClient, KafkaProducer

from streameval.events.records import Origin, Partition
from streameval.testing.broker import Broker
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
def test_records_come_back_byte_for_byte_and_in_order(broker: Broker) -> None:
    topic = filled(broker, {0: RECORDS})
    with opened(options(broker, topic)) as source:
        batches = drained(source, 50)
    assert by_partition(batches) == {Partition(topic, 0): RECORDS}
    assert [offset for batch in batches for offset in batch.offsets] == list(range(50))
    assert batches[-1].next_offset == 50


@on_each_client
def test_a_tombstone_is_none(broker: Broker) -> None:
    topic = filled(broker, {0: [b"a", None, b"c"]})
    with opened(options(broker, topic)) as source:
        assert by_partition(drained(source, 3)) == {Partition(topic, 0): [b"a", None, b"c"]}


@on_each_client
@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_records_come_back_as_they_were(broker: Broker, compression: str) -> None:
    topic = create(broker)
    fill(broker, topic, {0: RECORDS}, compression_type=compression)
    with opened(options(broker, topic)) as source:
        assert by_partition(drained(source, 50)) == {Partition(topic, 0): RECORDS}


@on_each_client
def test_partitions_of_several_topics_add_up(broker: Broker) -> None:
    first = filled(broker, {number: RECORDS[number * 10 :] for number in range(4)})
    second = filled(broker, {0: RECORDS[:7]})
    with opened(options(broker, first, second)) as source:
        found = by_partition(drained(source, 50 + 40 + 30 + 20 + 7))
    expected = {Partition(first, number): RECORDS[number * 10 :] for number in range(4)}
    assert found == {**expected, Partition(second, 0): RECORDS[:7]}


@on_each_client
def test_ends_are_known_and_reached(broker: Broker) -> None:
    topic = filled(broker, {0: RECORDS, 1: RECORDS[:3]})
    with opened(options(broker, topic)) as source:
        batches = drained(source, 53)
        ends = source.end_offsets()
    assert ends == {Partition(topic, 0): 50, Partition(topic, 1): 3}
    assert {batch.partition: batch.next_offset for batch in batches} == ends


@on_each_client
def test_an_empty_partition_has_a_position_before_its_first_record(broker: Broker) -> None:
    topic = filled(broker, {0: RECORDS, 1: []})
    with opened(options(broker, topic)) as source:
        batches = drained(source, 50)
    found = {batch.partition: batch.next_offset for batch in batches}
    assert found == {Partition(topic, 0): 50, Partition(topic, 1): 0}


@on_each_client
def test_a_source_is_never_finished_and_closes_twice(broker: Broker) -> None:
    topic = filled(broker, {0: RECORDS})
    with opened(options(broker, topic)) as source:
        drained(source, 50)
        assert source.name == topic
        assert not source.finished
        assert source.trouble is None
        source.close()


@on_each_client
def test_a_poll_that_has_no_time_left_returns(broker: Broker) -> None:
    topic = filled(broker, {0: RECORDS})
    with opened(options(broker, topic)) as source:
        drained(source, 50)
        for _ in range(5):
            source.poll(-0.1)


@on_each_client
def test_reading_everything_takes_nothing_from_the_group_and_commits_nothing(
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
