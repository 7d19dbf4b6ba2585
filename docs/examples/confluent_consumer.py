# /// script
# dependencies = ["confluent-kafka", "streameval"]
# ///
"""A consumer loop of one's own with confluent-kafka, which goes on exactly where it ended.

`python confluent_consumer.py SERVERS TOPIC STATE PORT`: reads every partition of the topic, keeps
counts and offsets together in the file STATE, and is scraped at 127.0.0.1:PORT. One process reads a
topic.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from threading import Event
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition
from prometheus_client import CollectorRegistry, start_http_server

from streameval import Accumulator
from streameval.prometheus import Collector

# Seconds that a new counter stands at 0: at least two scrape intervals.
FIRST_EXPOSURE = float(os.environ.get("FIRST_EXPOSURE", "60"))
EVERY = 10.0  # seconds between two savings


def save(path: Path, lists: Accumulator, offsets: dict[str, int]) -> None:
    """Counts and offsets in one file that is whole or the one before: no record counts twice."""
    new = path.with_suffix(".new")
    with new.open("w", encoding="utf-8") as file:
        json.dump({"lists": lists.state_dict(), "offsets": offsets}, file)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def load(path: Path, lists: Accumulator) -> dict[str, int]:
    """The next offset of each partition, after filling `lists` with what was counted before."""
    if not path.exists():
        return {}
    saved = json.loads(path.read_text(encoding="utf-8"))
    lists.load_state_dict(saved["lists"])
    offsets: dict[str, int] = saved["offsets"]
    return offsets


def assigned(servers: str, topic: str, offsets: dict[str, int]) -> Consumer:
    """A consumer of all partitions from these offsets on, or else from the beginning."""
    # The file knows the offsets, so nothing is committed and no group is joined.
    unused = {"group.id": "streameval-example", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": servers, "auto.offset.reset": "error", **unused})
    numbers = consumer.list_topics(topic, timeout=30).topics[topic].partitions
    consumer.assign(
        [TopicPartition(topic, n, offsets.get(str(n), OFFSET_BEGINNING)) for n in numbers]
    )
    return consumer


def count(messages: list[Any], lists: Accumulator, offsets: dict[str, int]) -> None:
    """Count a batch of messages, and remember where the next one begins."""
    batch = []
    for message in messages:
        if message.error():
            raise KafkaException(message.error())
        event = json.loads(message.value())
        batch.append((event["recommendations"], event["interactions"]))
        offsets[str(message.partition())] = message.offset() + 1
    lists.update_many(batch)


def main(servers: str, topic: str, state: Path, port: int) -> None:
    """Count until SIGTERM, saving now and then and in the end."""
    stop = Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    lists = Accumulator("ndcg@10", "hit_rate@10")
    offsets = load(state, lists)
    registry = CollectorRegistry()
    registry.register(Collector(lists, restored=True, first_exposure=FIRST_EXPOSURE))
    start_http_server(port, "127.0.0.1", registry)
    consumer = assigned(servers, topic, offsets)
    due = time.monotonic() + EVERY
    while not stop.is_set():
        count(consumer.consume(500, timeout=0.2), lists, offsets)
        if time.monotonic() >= due:
            save(state, lists, offsets)
            due = time.monotonic() + EVERY
    save(state, lists, offsets)
    consumer.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
