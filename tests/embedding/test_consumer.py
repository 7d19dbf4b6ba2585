from __future__ import annotations

import json
import random
import signal
from pathlib import Path
from typing import Any

import pytest

from streameval import Accumulator
from streameval.testing.broker import Broker
from tests.embedding.examples import awaited, started
from tests.embedding.lists import List, lists
from tests.kafka.topics import create, fill
from tests.ports import free_port

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


def test_the_consumer_resumes_exactly_where_its_state_ends(broker: Broker, tmp_path: Path) -> None:
    topic, state, found = create(broker, partitions=2), tmp_path / "state.json", [*lists(600)]
    ends = [(0, 300, signal.SIGTERM), (300, 500, signal.SIGKILL), (500, 600, signal.SIGTERM)]
    for first, last, end in ends:
        # After a kill it counts unsaved records again, exactly once.
        port, saved = free_port(), _lists(state)
        arguments = (broker.bootstrap_servers, topic, str(state), str(port))
        with started("confluent_consumer", tmp_path, *arguments) as consumer:
            fill(broker, topic, _records(found[first:last]))
            assert awaited(port, COUNT, last - saved)[COUNT] == last - saved
            consumer.send_signal(end)
            assert consumer.wait(300) == (0 if end is signal.SIGTERM else -signal.SIGKILL)
    kept = json.loads(state.read_text(encoding="utf-8"))
    alone = Accumulator("ndcg@10", "hit_rate@10")
    alone.update_many(found)
    assert _restored(kept).state_dict() == alone.state_dict()
    assert sum(kept["offsets"].values()) == 600


def _restored(kept: dict[str, Any]) -> Accumulator:
    accumulator = Accumulator("ndcg@10", "hit_rate@10")
    accumulator.load_state_dict(kept["lists"])
    return accumulator


def _lists(state: Path) -> int:
    """How many are in the state."""
    return _restored(json.loads(state.read_text())).lists if state.exists() else 0
