# /// script
# dependencies = ["confluent-kafka", "streameval"]
# ///
"""A consumer loop with confluent-kafka that resumes exactly where it stopped.

`python confluent_consumer.py SERVERS TOPIC STATE PORT` reads every partition of the topic, saves
counts and offsets together in the file STATE, and serves /metrics at 127.0.0.1:PORT. Run one
process per topic.
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

# Seconds for which a new counter shows 0: at least two scrape intervals.
FIRST_EXPOSURE = float(os.environ.get("FIRST_EXPOSURE", "60"))
EVERY = 10.0  # seconds between saves


def save(path: Path, lists: Accumulator, offsets: dict[str, int]) -> None:
    """Save counts and offsets in one atomic file, so that no record counts twice."""
    new = path.with_suffix(".new")
    with new.open("w", encoding="utf-8") as file:
        json.dump({"lists": lists.state_dict(), "offsets": offsets}, file)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def load(path: Path, lists: Accumulator) -> dict[str, int]:
    """Load the saved counts into `lists`; the next offset of each partition."""
    if not path.exists():
        return {}
    saved = json.loads(path.read_text(encoding="utf-8"))
    lists.load_state_dict(saved["lists"])
    offsets: dict[str, int] = saved["offsets"]
    return offsets


def assigned(servers: str, topic: str, offsets: dict[str, int]) -> Consumer:
    """A consumer of all partitions from these offsets, or from the beginning."""
    # The file has the offsets, so the consumer joins no group and commits nothing.
    unused = {"group.id": "streameval-example", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": servers, "auto.offset.reset": "error", **unused})
    numbers = consumer.list_topics(topic, timeout=30).topics[topic].partitions
    consumer.assign(
        [TopicPartition(topic, n, offsets.get(str(n), OFFSET_BEGINNING)) for n in numbers]
    )
    return consumer


def count(messages: list[Any], lists: Accumulator, offsets: dict[str, int]) -> None:
    """Count a batch of messages, and update the offsets."""
    batch = []
    for message in messages:
        if message.error():
            raise KafkaException(message.error())
        event = json.loads(message.value())
        batch.append((event["recommendations"], event["interactions"]))
        offsets[str(message.partition())] = message.offset() + 1
    lists.update_many(batch)


def main(servers: str, topic: str, state: Path, port: int) -> None:
    """Count until SIGTERM; save periodically and at the end."""
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
