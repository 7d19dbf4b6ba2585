"""The demo's traffic through a real broker, which lives exactly as long as the demo."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from streameval.broker import Broker
from streameval.cli.ending import tell
from streameval.errors import StreamevalError
from streameval.publish import Destination, publish_records
from streameval.sources.options import KafkaOptions, SimulatorOptions
from streameval.sources.simulator import records

_TOPIC: Final = "streameval-demo"


@contextmanager
def through_kafka(traffic: SimulatorOptions) -> Iterator[KafkaOptions]:
    """Publish the traffic to a broker of its own, at its pace, for whoever reads it.

    Raises:
        MissingExtraError: the extra "broker" is not installed.
        BrokerError: it does not start.
    """
    tell("starting a Kafka broker; the first time its 46 jars are fetched.")
    with Broker() as broker:
        kafka = {"bootstrap_servers": broker.bootstrap_servers}
        publisher = _Publisher(traffic, Destination(topic=_TOPIC, kafka=kafka))
        publisher.start()
        try:
            yield KafkaOptions(topics=[_TOPIC], kafka=kafka)
        finally:
            publisher.stop()


class _Publisher:
    """A thread that publishes until it is told to stop."""

    def __init__(self, traffic: SimulatorOptions, destination: Destination) -> None:
        self._traffic = traffic
        self._destination = destination
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="publisher", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(timeout=10.0)

    def _run(self) -> None:
        try:
            publish_records(self._paced(), self._destination, {})
        except StreamevalError as error:
            tell(str(error))

    def _paced(self) -> Iterator[bytes]:
        started = time.monotonic()
        pace = self._traffic.events_per_second or 1.0
        for number, record in enumerate(records(self._traffic)):
            if self._stopping.wait(max(0.0, started + number / pace - time.monotonic())):
                return
            yield record
