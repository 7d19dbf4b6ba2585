"""The real broker of a test run, started once by the fixture `broker`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from streameval.errors import BrokerError, MissingExtraError
from streameval.sources.kafka.client import silence_client_log
from streameval.testing.broker import Broker
from tests.kafka.secured import Secured, secured
from tests.kafka.topics import read_by


@pytest.fixture(scope="session")
def _secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """The broker with every security protocol; most tests use none."""
    silence_client_log()
    with ExitStack() as stack:
        try:
            found = stack.enter_context(secured(tmp_path_factory.mktemp("identities")))
        except (MissingExtraError, BrokerError) as error:
            if os.environ.get("CI") == "true":
                raise
            pytest.skip(f"no real Kafka here: {error}")
        yield found


@pytest.fixture(scope="session")
def _session_broker(_secured: Secured) -> Broker:
    return _secured.broker


@pytest.fixture
def broker(_session_broker: Broker) -> Broker:
    """A running broker, restarted if necessary; it may have topics of other tests."""
    _session_broker.start()
    return _session_broker


@pytest.fixture
def client(request: pytest.FixtureRequest) -> Iterator[str]:
    """The client that reads, see `tests.kafka.topics.on_each_client`."""
    with read_by(request.param):
        yield request.param
