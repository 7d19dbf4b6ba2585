"""The real broker of a test run: started once, for whoever asks for the fixture `broker`."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from streameval.errors import BrokerError, MissingExtraError
from streameval.sources.kafka.client import silence_client_log
from streameval.testing.broker import Broker
from tests.kafka.topics import read_by


@pytest.fixture(scope="session")
def _session_broker() -> Iterator[Broker]:
    silence_client_log()
    broker = Broker()
    try:
        broker.start()
    except (MissingExtraError, BrokerError) as error:
        broker.remove()
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"no real Kafka here: {error}")
    yield broker
    broker.remove()


@pytest.fixture
def broker(_session_broker: Broker) -> Broker:
    """A broker that runs, whatever the test before did to it; topics of others may be in it."""
    _session_broker.start()
    return _session_broker


@pytest.fixture
def client(request: pytest.FixtureRequest) -> Iterator[str]:
    """The client that reads, see `tests.kafka.topics.on_each_client`."""
    with read_by(request.param):
        yield request.param
