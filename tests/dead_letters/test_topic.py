"""Dead letter topics: written, and read for a replay."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest
from kafka import KafkaProducer
from kafka.errors import TopicAuthorizationFailedError

from streameval.checkpoints.dead_letters.queue import Queue, dead_letters_of
from streameval.checkpoints.dead_letters.topic import (
    DeadLetterReader,
    DeadLetterTopics,
    headers_of,
    truncate,
)
from streameval.engine.dead_letters import ORIGINAL
from streameval.events.errors import ConfigError, DeadLetterError
from streameval.sources.settings import FilesOptions, KafkaOptions
from streameval.testing.broker import Broker
from tests.dead_letters.samples import deliver, destination, in_topic, make_dead_letter
from tests.effort import PATIENCE
from tests.kafka.topics import (
    admin_of,
    create,
    fill,
    options,
    removed,
    shortened,
)

pytestmark = pytest.mark.kafka


def _queue(broker: Broker, *topics: str, topic: str | None = None) -> Queue:
    return destination(options(broker, *topics), topic=topic)


def _writer(address: str, *topics: str, seconds: float = 8.0) -> DeadLetterTopics:
    config = {"bootstrap_servers": address, "bootstrap_timeout_ms": 500}
    return DeadLetterTopics(config, {name: f"{name}.dlq" for name in topics}, seconds=seconds)


def _limit(size: int) -> Any:
    return {"max.message.bytes": str(size)}


def _partitions(broker: Broker, topic: str) -> int:
    with admin_of(broker) as admin:
        (description,) = admin.describe_topics([topic])
        return len(description["partitions"])


def test_letters_of_several_flushes_and_restarts_are_there_unchanged_in_their_order(
    broker: Broker,
) -> None:
    topic = create(broker)
    odd = make_dead_letter(
        3, topic=topic, key=None, value=b"\xff\x00\n", headers=(("h", b"\xff"),) * 2
    )
    empty = make_dead_letter(4, topic=topic, key=b"", value=b"", headers=())
    sent = [odd, empty, *(make_dead_letter(offset, topic=topic) for offset in range(5, 9))]
    for pair in (sent[:2], sent[2:4], sent[4:]):
        with closing(_queue(broker, topic)) as dead_letters:
            dead_letters.flush()
            for each in pair:
                dead_letters.send([each])
                dead_letters.flush()
        dead_letters.close()
    # At least once, in order, and nothing else.
    assert list(dict.fromkeys(stored for _, stored in in_topic(broker, f"{topic}.dlq"))) == sent


def test_several_threads_may_send_while_others_flush(broker: Broker) -> None:
    topic = create(broker)
    begins = (0, 100, 200)
    with (
        closing(_queue(broker, topic)) as dead_letters,
        ThreadPoolExecutor(len(begins)) as threads,
    ):

        def work(begin: int) -> None:
            for offset in range(begin, begin + 20):
                dead_letters.send([make_dead_letter(offset, topic=topic)])
                if offset % 5 == 0:
                    dead_letters.flush()

        list(threads.map(work, begins))
        dead_letters.flush()
    expected = {begin + offset for begin in begins for offset in range(20)}
    assert _offsets(broker, f"{topic}.dlq") == expected


def test_files_have_no_dead_letters() -> None:
    assert dead_letters_of(FilesOptions(paths=["x"]), {}) is None


def test_each_topic_has_a_dead_letter_topic_with_as_many_partitions(broker: Broker) -> None:
    first, second = create(broker, partitions=3), create(broker, partitions=1)
    of_first = [make_dead_letter(n, topic=first, number=n) for n in range(3)]
    deliver(_queue(broker, first, second), *of_first, make_dead_letter(9, topic=second))
    assert [number for number, _ in in_topic(broker, f"{first}.dlq")] == [0, 1, 2]
    assert _partitions(broker, f"{first}.dlq") == 3
    assert [dead.offset for _, dead in in_topic(broker, f"{second}.dlq")] == [9]
    assert _partitions(broker, f"{second}.dlq") == 1


def test_one_configured_topic_takes_the_letters_of_all_topics(broker: Broker) -> None:
    first, second, dead = (create(broker, partitions=n) for n in (3, 4, 2))
    sent = [make_dead_letter(n, topic=first, number=n) for n in range(3)]
    sent += [make_dead_letter(n, topic=second, number=n) for n in range(4)]
    deliver(_queue(broker, first, second, topic=dead), *sent)
    dead_letters = in_topic(broker, dead)
    assert {dead_letter.partition.topic for _, dead_letter in dead_letters} == {first, second}
    assert [number == dead_letter.partition.number % 2 for number, dead_letter in dead_letters] == [
        True
    ] * 7


def test_a_deleted_topic_is_created_again(broker: Broker) -> None:
    topic = create(broker)
    with closing(Queue(_writer(broker.bootstrap_servers, topic))) as dead_letters:
        dead_letters.send([make_dead_letter(1, topic=topic)])
        dead_letters.flush()
        removed(broker, f"{topic}.dlq")
        dead_letters.send([make_dead_letter(2, topic=topic)])
        with pytest.raises(DeadLetterError):
            dead_letters.flush()
        dead_letters.flush()
    assert [dead.offset for _, dead in in_topic(broker, f"{topic}.dlq")] == [2]


def test_the_largest_record_of_a_topic_fits_with_its_headers(broker: Broker) -> None:
    topic = create(broker, **_limit(3_000_000))
    deliver(_queue(broker, topic), make_dead_letter(1, topic=topic, value=b"x" * 2_999_900))
    assert [len(dead.value) for _, dead in in_topic(broker, f"{topic}.dlq")] == [2_999_900]


@pytest.mark.parametrize(("limit", "kept"), [(100_000, 65_536), (20_000, 1_024)])
def test_a_letter_that_is_too_large_is_truncated_and_holds_no_other_back(
    broker: Broker, limit: int, kept: int
) -> None:
    topic, dead = create(broker), create(broker, **_limit(limit))
    sizes = (10, 150_000, 20, 70_000_000, 30)
    sent = [make_dead_letter(n, topic=topic, value=b"x" * size) for n, size in enumerate(sizes)]
    with closing(_queue(broker, topic, topic=dead)) as dead_letters:
        dead_letters.send(sent)
        dead_letters.flush()
        assert dead_letters.durable_count == 5
    expected = [
        truncate(dead_letter, kept) if len(dead_letter.value) > kept else dead_letter
        for dead_letter in sent
    ]
    assert [dead_letter.size for dead_letter in expected] == [None, 150_000, None, 70_000_000, None]
    assert [dead_letter for _, dead_letter in in_topic(broker, dead)] == expected


def test_a_letter_with_large_headers_is_truncated_to_its_origin(broker: Broker) -> None:
    topic, dead = create(broker), create(broker, **_limit(5_000))
    replayed = (ORIGINAL, f"{topic}/0/7".encode())
    sent = make_dead_letter(
        9, topic=topic, key=b"k" * 5_000, headers=(("h", b"h" * 5_000), replayed)
    )
    deliver(_queue(broker, topic, topic=dead), sent)
    ((_, stored),) = in_topic(broker, dead)
    assert (stored.key, stored.value, stored.headers, stored.size) == (None, b"", (replayed,), 8)
    assert (stored.identity, stored.original) == (sent.identity, sent.original)


def test_a_letter_is_too_large_if_not_even_its_origin_fits(broker: Broker) -> None:
    topic, dead = create(broker), create(broker, **_limit(100))
    with pytest.raises(DeadLetterError, match=f"{topic}/0/14 of 8 bytes is too large; raise max"):
        deliver(_queue(broker, topic, topic=dead), make_dead_letter(topic=topic))


def test_rejected_letters_leave_no_thread_and_no_connection(broker: Broker) -> None:
    topic, dead = create(broker), create(broker, **_limit(1_000))
    # More than one batch, so that some are still being split when the large letter is refused.
    sizes = (*[10] * 10, 5_000, *[200] * 300)
    sent = [make_dead_letter(n, topic=topic, value=b"x" * size) for n, size in enumerate(sizes)]
    # What a letter cannot lose: it is not truncated, and refused.
    sent[10] = make_dead_letter(10, topic=topic, headers=((ORIGINAL, b"x" * 5_000),))
    with closing(_queue(broker, topic, topic=dead)) as dead_letters:
        dead_letters.send(sent)
        before = set(threading.enumerate())
        for _ in range(3):
            with pytest.raises(DeadLetterError, match=f"{topic}/0/10 of 8 bytes is too large"):
                dead_letters.flush()
        assert set(threading.enumerate()) <= before
        # A batch that a busy broker did not take in time comes with one of the next flushes.
        good, until = {*range(len(sizes))} - {10}, time.monotonic() + PATIENCE
        while (offsets := _offsets(broker, dead)) < good and time.monotonic() < until:
            with pytest.raises(DeadLetterError, match="too large"):
                dead_letters.flush()
    assert offsets == good


def _offsets(broker: Broker, topic: str) -> set[int]:
    return {dead_letter.offset for _, dead_letter in in_topic(broker, topic)}


@pytest.mark.nightly
def test_letters_are_written_after_a_broker_restarts(broker: Broker) -> None:
    topic = create(broker)
    with closing(Queue(_writer(broker.bootstrap_servers, topic))) as dead_letters:
        dead_letters.send([make_dead_letter(1, topic=topic)])
        dead_letters.flush()
        broker.stop()
        dead_letters.send([make_dead_letter(2, topic=topic)])
        with pytest.raises(DeadLetterError, match="retried at the next checkpoint"):
            dead_letters.flush()
        dead_letters.send([make_dead_letter(3, topic=topic)])
        broker.start()
        dead_letters.flush()
    offsets = [dead.offset for _, dead in in_topic(broker, f"{topic}.dlq")]
    assert list(dict.fromkeys(offsets)) == [1, 2, 3]


def test_an_unreachable_broker_is_an_error() -> None:
    with (
        closing(_writer("127.0.0.1:1", "events", seconds=1)) as writer,
        pytest.raises(
            DeadLetterError, match=r"topic events.dlq: cannot reach Kafka at 127.0.0.1:1"
        ),
    ):
        writer.write([make_dead_letter()])


def test_missing_permissions_are_named() -> None:
    writer = _writer("127.0.0.1:1", "events")
    message = str(writer._failure(TopicAuthorizationFailedError("events.dlq")))
    assert "TopicAuthorizationFailedError" in message
    assert "allow this user to describe, create and write the topic" in message


@pytest.mark.parametrize(
    ("topics", "topic", "said"),
    [
        (["events"], "no topic!", "found 'no topic!': "),
        (["events"], "", "found '': "),
        (["events", "dead"], "dead", "'dead' is also read; give dead letters a separate"),
        (["events", "events.dlq"], None, "'events.dlq' is also read"),
        (["x" * 246], None, "found 'xxx"),
    ],
)
def test_an_invalid_dead_letter_topic_is_rejected_at_once(
    topics: list[str], topic: str | None, said: str
) -> None:
    source = KafkaOptions(topics=topics, kafka={"bootstrap_servers": "127.0.0.1:1"})
    with pytest.raises(ConfigError, match=r"^dead_letters: topic: ") as raised:
        dead_letters_of(source, {}, topic=topic)
    assert said in raised.value.problem


def _dead(broker: Broker, count: int) -> str:
    topic = create(broker)
    sent = [make_dead_letter(offset, topic=topic) for offset in range(count)]
    deliver(destination(options(broker, topic)), *sent)
    return topic


def _read(broker: Broker, topic: str) -> DeadLetterReader:
    config = {"bootstrap_servers": broker.bootstrap_servers, "isolation_level": "read_committed"}
    return DeadLetterReader(config, [f"{topic}.dlq"], [topic])


def test_records_that_are_not_letters_are_counted_and_skipped(broker: Broker) -> None:
    topic = _dead(broker, 2)
    fill(broker, f"{topic}.dlq", {0: [b"mine", None]})
    dead_letters = _read(broker, topic)
    for _ in range(2):
        assert [dead_letter.offset for dead_letter in dead_letters] == [0, 1]
        assert dead_letters.foreign == 2


def test_letters_deleted_by_retention_are_skipped(broker: Broker) -> None:
    topic = _dead(broker, 5)
    shortened(broker, f"{topic}.dlq", 3)
    assert [dead_letter.offset for dead_letter in _read(broker, topic)] == [3, 4]
    shortened(broker, f"{topic}.dlq", 5)
    assert list(_read(broker, topic)) == []


def test_letters_of_an_aborted_transaction_are_skipped(broker: Broker) -> None:
    topic = _dead(broker, 1)
    producer = KafkaProducer(
        bootstrap_servers=broker.bootstrap_servers, transactional_id=f"{topic}-tx"
    )
    with closing(producer):
        producer.init_transactions()
        for finish in (producer.commit_transaction, producer.abort_transaction):
            producer.begin_transaction()
            sent = make_dead_letter(7, topic=topic)
            future = producer.send(f"{topic}.dlq", sent.value, sent.key, headers_of(sent))
            producer.flush()
            future.get(timeout=PATIENCE)
            finish()
    assert [stored.offset for stored in _read(broker, topic)] == [0, 7]


def test_letters_added_while_topics_are_read_are_not_read(broker: Broker) -> None:
    topic = _dead(broker, 3)
    dead_letters = _read(broker, topic)
    fill(broker, f"{topic}.dlq", {0: [b"later"]})
    assert [dead_letter.offset for dead_letter in dead_letters] == [0, 1, 2]
    assert dead_letters.foreign == 0
