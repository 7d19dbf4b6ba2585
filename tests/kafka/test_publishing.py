from __future__ import annotations

import gzip
from collections import defaultdict
from contextlib import closing
from itertools import chain
from pathlib import Path

import pytest
from kafka import KafkaConsumer, TopicPartition

from streameval.events.errors import ConfigError, SourceError
from streameval.sources.files import lines
from streameval.sources.topics import Destination, Published, UserKey, publish_records
from streameval.testing.broker import Broker
from tests.kafka.topics import create, drained, opened, options

pytestmark = pytest.mark.kafka

LINES = [b'{"user": %d, "n": %d}' % (number % 7, number) for number in range(500)]


def _destination(topic: str, user: str = "user") -> Destination:
    settings = {"bootstrap.servers": "${SERVERS}"}
    return Destination(topic=topic, kafka=settings, partitions=3, user=user)


def _publish(broker: Broker, topic: str, *paths: Path, user: str = "user") -> Published:
    names = [str(path) for path in paths]
    environment = {"SERVERS": broker.bootstrap_servers}
    records = chain.from_iterable(map(lines, names))
    return publish_records(records, _destination(topic, user), environment)


def _written(path: Path, lines: list[bytes]) -> Path:
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def _keys(broker: Broker, topic: str, count: int) -> list[tuple[int, bytes | None]]:
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap_servers)
    keys: list[tuple[int, bytes | None]] = []
    with closing(consumer):
        partitions = [TopicPartition(topic, n) for n in consumer.partitions_for_topic(topic)]
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        while len(keys) < count:
            polled = consumer.poll(timeout_ms=200)
            keys += [(r.partition, r.key) for records in polled.values() for r in records]
    return keys


def test_lines_of_a_user_arrive_unchanged_in_order_in_one_partition(
    broker: Broker, tmp_path: Path
) -> None:
    topic = f"test-{tmp_path.name}-bytes"
    plain = _written(tmp_path / "first.ndjson", LINES[:300])
    packed = tmp_path / "second.ndjson.gz"
    packed.write_bytes(gzip.compress(b"\n".join(LINES[300:])))
    published = _publish(broker, topic, plain, packed)
    assert published == Published(records=500, without_user=0, created=True)
    with opened(options(broker, topic)) as source:
        values = [value for batch in drained(source, 500) for value in batch.values]
        assert len(source.status.ends) == 3
    assert sorted(filter(None, values)) == sorted(LINES)
    for user in range(7):
        ours = [line for line in LINES if line.startswith(b'{"user": %d,' % user)]
        assert [value for value in values if value in ours] == ours
    partitions = defaultdict(set)
    for partition, key in _keys(broker, topic, 500):
        partitions[key].add(partition)
    assert partitions.keys() == {b"%d" % user for user in range(7)}
    assert all(len(partitions_of_key) == 1 for partitions_of_key in partitions.values())


def test_a_line_without_a_user_is_published_and_counted(broker: Broker, tmp_path: Path) -> None:
    topic = create(broker, partitions=2)
    odd = [b'{"id": {"who": "a"}}', b'{"id": {}}', b"not json", b'{"id": {"who": true}}', b"\xff"]
    published = _publish(broker, topic, _written(tmp_path / "lines", odd), user="id.who")
    assert published == Published(records=5, without_user=4, created=False)
    assert sorted(key or b"" for _, key in _keys(broker, topic, 5)) == [b"", b"", b"", b"", b"a"]


def test_progress_ends_at_the_number_of_records(broker: Broker, tmp_path: Path) -> None:
    path = _written(tmp_path / "lines", LINES * 30)
    destination = _destination(create(broker))
    seen: list[int] = []
    environment = {"SERVERS": broker.bootstrap_servers}
    publish_records(lines(str(path)), destination, environment, seen.append)
    assert seen == sorted(seen)
    assert len(seen) > 1
    assert seen[-1] == 15_000


def test_a_record_that_is_too_large_is_an_error_with_the_count_before_it(
    broker: Broker, tmp_path: Path
) -> None:
    topic = create(broker)
    path = _written(tmp_path / "lines", [LINES[0], b'"%s"' % (b"x" * 2_000_000)])
    with pytest.raises(SourceError, match="MessageSizeTooLargeError") as raised:
        _publish(broker, topic, path)
    assert raised.value.where.startswith(f"topic {topic!r}, after ")


def test_a_topic_with_an_invalid_name_is_rejected(broker: Broker) -> None:
    with pytest.raises(SourceError, match="is illegal, it contains a character other than"):
        _publish(broker, "no topic!")


def test_an_unreachable_broker_is_an_error() -> None:
    settings = {"bootstrap_servers": "127.0.0.1:1", "bootstrap_timeout_ms": 500}
    with pytest.raises(SourceError, match=r"cannot reach Kafka at 127.0.0.1:1: connection refus"):
        publish_records(LINES, Destination(topic="t", kafka=settings), {})


def test_a_setting_of_a_reader_is_unknown_to_a_writer() -> None:
    settings = {"bootstrap_servers": "127.0.0.1:1", "fetch_min_bytes": 1}
    with pytest.raises(ConfigError, match="fetch_min_bytes: the Kafka client has no such setting"):
        publish_records([], Destination(topic="t", kafka=settings), {})


@pytest.mark.parametrize(
    ("record", "key"),
    [
        (b'{"user": "7"}', b"7"),
        (b'{"user": 7}', b"7"),
        (b'{"user": ""}', b""),
        ('{"user": "é"}'.encode(), "é".encode()),
        (b'{"user": 7.5}', None),
        (b'{"user": null}', None),
        (b'{"user": "\\ud800"}', None),
        (b"[]", None),
        (b"", None),
        (b'{"user": 123456789012345678901234567890}', b"123456789012345678901234567890"),
    ],
)
def test_a_user_is_text_or_a_whole_number(record: bytes, key: bytes | None) -> None:
    assert UserKey("user")(record) == key
