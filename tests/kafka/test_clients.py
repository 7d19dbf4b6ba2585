"""Both clients give equal counts, and can share a group."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest
from kafka import KafkaProducer

from streameval.checkpoints.format import Shard
from streameval.checkpoints.store import folder_store
from streameval.config import Config, WebOptions
from streameval.config.pipeline import new_ingest
from streameval.config.tables import StateOptions, WindowsOptions
from streameval.daemon import Daemon
from streameval.decoding.fields import EventFields
from streameval.engine.ingest import Ingest
from streameval.events.records import Partition
from streameval.sources.kafka.cluster import Cluster
from streameval.sources.settings import KafkaOptions, SimulatorOptions
from streameval.sources.simulator import CATALOG_SIZE, records
from streameval.testing.broker import Broker
from tests.chaos.check import digests
from tests.kafka.members import reading, until
from tests.kafka.topics import create, filled, opened, options

pytestmark = pytest.mark.kafka

CLIENTS = ("kafka-python", "confluent")
_EVENTS, _PARTITIONS, _TRANSACTION = 3_000, 3, 250


@pytest.fixture(scope="module")
def topic(_session_broker: Broker) -> str:
    """Compressed records in transactions; every third of these is aborted, the last one too."""
    _session_broker.start()
    topic = create(_session_broker, partitions=_PARTITIONS)
    producer = KafkaProducer(
        bootstrap_servers=_session_broker.bootstrap_servers,
        transactional_id=topic,
        compression_type="lz4",
        linger_ms=20,
    )
    with closing(producer):
        producer.init_transactions()
        for number, record in enumerate(records(SimulatorOptions(events=_EVENTS))):
            if number % _TRANSACTION == 0:
                producer.begin_transaction()
            producer.send(topic, record, partition=number % _PARTITIONS)
            if number % _TRANSACTION == _TRANSACTION - 1:
                aborted = number // _TRANSACTION % 3 == 2
                producer.abort_transaction() if aborted else producer.commit_transaction()
    return topic


def test_daemons_of_both_clients_continue_each_others_state_with_equal_bytes(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    total = _counted(options(broker, topic))
    assert total.tally.valid == _EVENTS * 2 // 3
    for quarter, client in enumerate((*CLIENTS, *CLIENTS), 1):
        source = options(broker, topic, group=topic, client=client, max_poll_records=100)
        _run(_config(source, tmp_path), {p: at * quarter // 4 for p, at in total.positions.items()})
    with closing(Cluster({"bootstrap_servers": broker.bootstrap_servers})) as cluster:
        identity = cluster.topics([topic]).identities[topic]
        committed = cluster.committed(topic, total.positions)
    store = folder_store(tmp_path)
    checkpoints = [
        store.newest(Shard(topic, identity, number)).saved for number in range(_PARTITIONS)
    ]
    assert {
        n: checkpoint.digests for n, checkpoint in enumerate(checkpoints) if checkpoint is not None
    } == digests(total)
    assert committed == total.positions


def _config(source: KafkaOptions, store: Path | None = None) -> Config:
    return Config(
        metrics=["ctr", "ndcg@10", "mrr", "item_coverage@10"],
        labels=["variant"],
        catalog=CATALOG_SIZE,
        event=EventFields(time="ts", time_unit="iso8601", event_id="event_id"),
        windows=WindowsOptions(spans=["5m", "1h"]),
        source=source,
        state=None if store is None else StateOptions(path=str(store)),
        web=WebOptions(listen="127.0.0.1:0"),
    )


def _counted(source: KafkaOptions) -> Ingest:
    """Count a topic to its end with one process."""
    ingest = new_ingest(_config(source))
    with opened(source) as opened_source:
        while not ingest.positions or ingest.positions != opened_source.status.ends:
            for batch in opened_source.poll(0.1):
                ingest.apply(batch)
    return ingest


def _run(config: Config, wanted: Mapping[Partition, int]) -> None:
    daemon = Daemon(config, {})

    def far_enough() -> bool:
        snapshot = daemon.current()
        partitions = () if snapshot is None else snapshot.health.partitions
        positions = {Partition(each.topic, each.partition): each.position for each in partitions}
        return all(positions.get(number, 0) >= at for number, at in wanted.items())

    daemon.run(until=far_enough)


def test_members_of_both_clients_share_a_group(broker: Broker) -> None:
    records = {number: [b"%d" % number] * 5 for number in range(4)}
    topic = filled(broker, records)
    first, other = (options(broker, topic, group=topic, client=client) for client in CLIENTS)
    with reading(first) as a:
        until(lambda: a.told.values == records, a)
        with reading(other) as b:
            until(lambda: len(a.numbers) == len(b.numbers) == 2, a, b)
            assert sorted(a.numbers + b.numbers) == [0, 1, 2, 3]
            until(lambda: sorted(b.told.values) == b.numbers, a, b)
        until(lambda: len(a.numbers) == 4, a)
    assert a.told.values == records
