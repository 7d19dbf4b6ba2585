"""A real single-node Kafka broker from packages alone: for tests and `streameval demo --kafka`."""

from streameval.broker.server import Broker

__all__ = ["Broker"]
