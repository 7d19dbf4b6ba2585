from __future__ import annotations

import gc
import logging
import os
import signal
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError

from streameval.events.errors import SourceError
from streameval.events.records import Partition
from streameval.sources.kafka.cluster import Cluster, Topics, connect
from streameval.sources.kafka.kafka_python import close_producer
from streameval.sources.source import Source
from streameval.sources.topics import probe
from streameval.testing.broker import Broker
from tests.kafka.topics import (
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
    removed,
)

pytestmark = pytest.mark.kafka


def _poll_for_ever(source: Source) -> None:
    """Poll until an error is raised; the time limit of the run guards it."""
    while True:
        source.poll(0.1)


@on_each_client
def test_a_record_with_a_wrong_checksum_is_an_error_after_the_records_before_it(
    broker: Broker,
) -> None:
    topic = filled(broker, {0: [b"whole"]})
    fill(broker, topic, {0: [b"damaged"]})
    (log,) = Path(tempfile.gettempdir()).glob(f"streameval-broker-*/**/{topic}-0/*.log")
    content = log.read_bytes()
    with log.open("r+b") as file:
        file.seek(content.index(b"damaged"))
        file.write(b"D")
    with opened(options(broker, topic)) as source:
        assert by_partition(drained(source, 1)) == {Partition(topic, 0): [b"whole"]}
        with pytest.raises(SourceError, match=r"fails its checksum .* restore the partition, or"):
            _poll_for_ever(source)


@on_each_client
@pytest.mark.nightly
def test_a_broker_that_starts_later_is_waited_for(broker: Broker) -> None:
    topic = filled(broker, {0: [b"a", b"b"]})
    broker.stop()
    with opened(options(broker, topic)) as source:
        assert source.status.problem is not None
        awaited(source, f"cannot reach Kafka at {broker.bootstrap_servers}: connection refused")
        broker.start()
        assert by_partition(drained(source, 2)) == {Partition(topic, 0): [b"a", b"b"]}
        awaited(source, None)


@on_each_client_at_night
def test_a_broker_that_crashes_while_reading_loses_and_repeats_nothing_and_fills_no_log(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    topic = filled(broker, {0: [b"a"], 1: [b"b"]})
    caplog.set_level(logging.INFO)
    with opened(options(broker, topic, client_id="//xyzzy@")) as source:
        batches = drained(source, 2)
        broker.kill()
        awaited(source, "cannot reach Kafka")
        broker.start()
        awaited(source, None)
        assert [record.name for record in caplog.records] == ["streameval.sources.kafka"]
        logged = repr(vars(caplog.records[0]))
        assert topic in logged
        assert "xyzzy" not in logged
        fill(broker, topic, {0: [b"c"], 1: [b"d"]})
        batches += drained(source, 2)
    assert by_partition(batches) == {
        Partition(topic, 0): [b"a", b"c"],
        Partition(topic, 1): [b"b", b"d"],
    }


@on_each_client_at_night
def test_a_silent_broker_is_trouble_until_it_answers_and_costs_no_busy_loop(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Counter[str]()
    for name in ("poll", "_poll_once"):
        monkeypatch.setattr(KafkaConsumer, name, _counting(calls, getattr(KafkaConsumer, name)))
    topic = filled(broker, {0: [b"a"]})
    with opened(options(broker, topic)) as source:
        drained(source, 1)
        assert broker.pid is not None
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            calls.clear()
            awaited(source, f"no Kafka answer from {broker.bootstrap_servers}")
        finally:
            os.kill(broker.pid, signal.SIGCONT)
        assert calls["_poll_once"] <= 5 * calls["poll"]
        awaited(source, None)
        fill(broker, topic, {0: [b"b"]})
        assert by_partition(drained(source, 1)) == {Partition(topic, 0): [b"b"]}


def _counting(calls: Counter[str], method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def counted(*given: Any, **settings: Any) -> Any:
        calls[method.__name__] += 1
        return method(*given, **settings)

    return counted


def test_an_unexpected_error_of_the_client_is_reported_and_retried(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def surprised(*_: object) -> Topics:
        raise KeyError("topic_id")

    topic = filled(broker, {0: [b"a"]})
    with opened(options(broker, topic)) as source:
        drained(source, 1)
        with monkeypatch.context() as patch:
            patch.setattr(Cluster, "topics", surprised)
            awaited(source, "KeyError: 'topic_id'")
        awaited(source, None)


@on_each_client
def test_a_topic_created_later_is_read_from_its_beginning_and_delays_no_other(
    broker: Broker,
) -> None:
    there = filled(broker, {0: [b"a"]})
    late = f"{there}-late"
    with opened(options(broker, there, late, start="latest")) as source:
        awaited(source, f"no topic '{late}' on this cluster; create it, or correct [source] topics")
        while not source.status.joined:
            source.poll(0.1)
        fill(broker, there, {0: [b"c"]})
        assert by_partition(drained(source, 1)) == {Partition(there, 0): [b"c"]}
        assert source.commit({Partition(there, 0): 2}) is None
        create(broker, name=late)
        fill(broker, late, {0: [b"b"]})
        assert by_partition(drained(source, 1)) == {Partition(late, 0): [b"b"]}
        awaited(source, None)


@on_each_client_at_night
def test_a_recreated_topic_is_rejected(broker: Broker) -> None:
    topic = filled(broker, {0: [b"a"]})
    with opened(options(broker, topic)) as source:
        drained(source, 1)
        removed(broker, topic)
        create(broker, name=topic)
        fill(broker, topic, {0: [b"b"] * 3})
        with pytest.raises(SourceError, match="recreated"):
            _poll_for_ever(source)


def test_inconsistent_settings_are_rejected_and_not_retried(broker: Broker) -> None:
    topic = filled(broker, {0: [b"a"]})
    wrong = options(broker, topic, request_timeout_ms=20_000, fetch_max_wait_ms=30_000)
    with opened(wrong) as source, pytest.raises(SourceError, match=r"correct \[source\.kafka\]"):
        _poll_for_ever(source)
    with pytest.raises(SourceError, match="request_timeout_ms"):
        probe(wrong, {})


@on_each_client_at_night
def test_a_probe_describes_the_topics(broker: Broker) -> None:
    topic = filled(broker, {0: [b"a"] * 1200, 1: [b"b"]})
    answer = probe(options(broker, topic), {})
    assert answer == f"Kafka answers: {topic}: 2 partitions, 1,201 offsets in use."


@on_each_client_at_night
def test_a_probe_rejects_a_missing_topic(broker: Broker) -> None:
    with pytest.raises(SourceError, match="topic 'missing': not found on this cluster; create"):
        probe(options(broker, "missing"), {})


@on_each_client
def test_a_probe_rejects_an_unreachable_broker() -> None:
    with pytest.raises(SourceError, match=r"cannot reach Kafka at 127.0.0.1:1: connection refused"):
        probe(options("127.0.0.1:1", "topic", bootstrap_timeout_ms=500), {})


def test_failed_connections_keep_no_socket_until_garbage_is_collected() -> None:
    config = {"bootstrap_servers": "127.0.0.1:1", "bootstrap_timeout_ms": 1_000}
    gc.disable()
    try:
        before = _open_sockets()
        for _ in range(3):
            with pytest.raises(KafkaError):
                Cluster(config)
        assert _open_sockets() <= before
    finally:
        gc.enable()


def _open_sockets() -> int:
    names = []
    for path in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            names.append(os.readlink(path))  # noqa: PTH115  not a path
    return sum(name.startswith("socket:") for name in names)


def test_a_topic_that_may_not_be_read_comes_with_a_remedy() -> None:
    why = {"events": "TopicAuthorizationFailedError"}
    topics = Topics(partitions=(), identities={}, missing=(), refused=why)
    assert topics.problem == (
        "Kafka does not describe topic 'events' (TopicAuthorizationFailedError); allow this user "
        "to read it; still trying."
    )


def test_a_producer_closes_its_thread_while_the_broker_is_silent(broker: Broker) -> None:
    topic = create(broker)
    before = set(threading.enumerate())
    producer = connect(KafkaProducer, {"bootstrap_servers": broker.bootstrap_servers})
    producer.send(topic, b"a").get()
    assert broker.pid is not None
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        producer.send(topic, b"b")
        close_producer(producer, 0.5)
        assert set(threading.enumerate()) <= before
    finally:
        os.kill(broker.pid, signal.SIGCONT)
