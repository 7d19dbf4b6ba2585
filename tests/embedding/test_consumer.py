from __future__ import annotations

import json
import random
import signal
from pathlib import Path

import pytest

from streameval import Accumulator
from streameval.broker import Broker
from tests.embedding.examples import awaited, free_port, started
from tests.embedding.lists import List, lists
from tests.kafka.topics import create, fill

pytestmark = pytest.mark.kafka

COUNT = "streameval_hit_rate_count{k=10}"


def _records(found: list[List]) -> dict[int, list[bytes | None]]:
    """The lists as records of two partitions."""
    dice = random.Random(1)
    records: dict[int, list[bytes | None]] = {0: [], 1: []}
    for shown, clicked in found:
        event = {"recommendations": shown, "interactions": sorted(clicked)}
        records[dice.randrange(2)].append(json.dumps(event).encode())
    return records


def test_the_consumer_goes_on_exactly_where_it_ended(broker: Broker, tmp_path: Path) -> None:
    topic, state, found = create(broker, partitions=2), tmp_path / "state.json", [*lists(600)]
    for part in (found[:400], found[400:]):
        port = free_port()
        arguments = (broker.bootstrap_servers, topic, str(state), str(port))
        with started("confluent_consumer", tmp_path, *arguments) as consumer:
            assert awaited(port, COUNT, 0)[COUNT] == 0
            fill(broker, topic, _records(part))
            assert awaited(port, COUNT, len(part))[COUNT] == len(part)
            consumer.send_signal(signal.SIGTERM)
            assert consumer.wait(60) == 0
    saved = json.loads(state.read_text(encoding="utf-8"))
    alone = Accumulator("ndcg@10", "hit_rate@10")
    alone.update_many(found)
    again = Accumulator("ndcg@10", "hit_rate@10")
    again.load_state_dict(saved["lists"])
    assert again.state_dict() == alone.state_dict()
    assert sum(saved["offsets"].values()) == 600
