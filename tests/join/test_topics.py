"""Topics that cannot be joined are refused at the start, with what to do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streameval.errors import SplitKeyError
from streameval.events.records import Partition, RecordBatch
from streameval.join.joint import require_together
from streameval.testing.broker import Broker
from tests.cli.program import spawned
from tests.join.offline import Case
from tests.join.streams import joint
from tests.join.test_daemon import JOIN, METRICS
from tests.kafka.topics import create, fill

CASE = Case([[[]], [[]]], window=1)
SHOWN = {"ts": 1, "request_id": "r1", "user": "u", "shown": ["a"]}
CLICK = {"ts": 1, "request_id": "r1", "user": "u", "item": "a", "type": "click", "event_id": "1"}


def batch(topic: str, number: int, record: object) -> RecordBatch:
    return RecordBatch(
        partition=Partition(topic, number),
        values=[json.dumps(record).encode()],
        offsets=[0],
        next_offset=1,
    )


def test_a_key_in_one_partition_of_each_is_well() -> None:
    require_together(joint(CASE), [batch("s0-0", 2, SHOWN), batch("s1-0", 2, CLICK)])


def test_a_key_in_two_is_told() -> None:
    with pytest.raises(SplitKeyError, match="partition 2 of s0-0 and partition 1 of s1-0"):
        require_together(joint(CASE), [batch("s0-0", 2, SHOWN), batch("s1-0", 1, CLICK)])


def ended(broker: Broker, shown: str, clicked: str, folder: Path) -> str:
    """What the daemon says as it refuses to begin."""
    config = METRICS + JOIN.format(
        shown=shown, clicked=clicked, address=broker.bootstrap_servers, store=folder / "state"
    )
    (folder / "streameval.toml").write_text(config)
    done = spawned("run", folder / "streameval.toml")
    assert done.returncode != 0
    return done.stderr


def test_unequal_partitions_are_refused(broker: Broker, tmp_path: Path) -> None:
    shown, clicked = create(broker, partitions=2), create(broker, partitions=3)
    told = ended(broker, shown, clicked, tmp_path)
    assert f"{shown} has 2" in told or "did not come with it" in told
    assert "the same number of partitions" in told


def test_keys_that_cannot_meet_are_refused(broker: Broker, tmp_path: Path) -> None:
    shown, clicked = create(broker, partitions=2), create(broker, partitions=2)
    at = "2026-01-01T00:00:00Z"
    seen = {"ts": at, "request_id": "r1", "recommendations": ["a"], "positions": [1]}
    fill(broker, shown, {0: [json.dumps(seen).encode()]})
    fill(broker, clicked, {1: [json.dumps({**CLICK, "ts": at}).encode()]})
    told = ended(broker, shown, clicked, tmp_path)
    assert "'r1' is in partition " in told
    assert f"partition 0 of {shown}" in told
    assert f"partition 1 of {clicked}" in told
