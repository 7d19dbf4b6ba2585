"""A daemon that is told to stop saves all of its partitions in one round."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from kafka import KafkaProducer

from streameval.checkpoints.store import folder_store
from streameval.sources.settings import SimulatorOptions
from streameval.sources.simulator import records
from streameval.testing.broker import Broker
from tests.daemon.running import kafka_source, running
from tests.kafka.topics import create
from tests.present import present

pytestmark = pytest.mark.kafka

_PARTITIONS, _EVENTS = 64, 6_400

_CONFIG = """
metrics = ["ctr", "ndcg@10"]
labels = ["variant"]
event = { time = "ts", time_unit = "iso8601" }
state = { path = "state", interval = "1h" }
web = { listen = "127.0.0.1:0" }
"""


def test_64_partitions_are_all_in_the_last_round(broker: Broker, tmp_path: Path) -> None:
    topic = create(broker, partitions=_PARTITIONS)
    with closing(KafkaProducer(bootstrap_servers=broker.bootstrap_servers)) as producer:
        for number, record in enumerate(records(SimulatorOptions(events=_EVENTS))):
            producer.send(topic, record, partition=number % _PARTITIONS)
    with running(_CONFIG + kafka_source(broker, topic), tmp_path) as daemon:
        daemon.consumed(_EVENTS)
        assert daemon.stop() == 0
        (saved,) = daemon.logged("state_saved")
        assert f"partitions={_PARTITIONS}" in saved.split()
    store = folder_store(tmp_path / "state")
    (directories,) = store.listing().writers.values()
    newest = present(directories[0])
    assert [at.offset for at in newest.values()] == [_EVENTS // _PARTITIONS] * _PARTITIONS
    # The start of all was the first round, and this is the second.
    assert {present(at.region).round for at in newest.values()} == {1}
    assert {present(store.newest(partition).saved).header.offset for partition in newest} == {100}
