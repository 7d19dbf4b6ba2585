"""What tests of several folders share."""

from tests.kafka.broker_fixture import _session_broker, broker

__all__ = ["_session_broker", "broker"]
