"""Topics that cannot be joined are refused at the start, with a remedy."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from streameval.errors import SplitKeyError, UnevenStreamsError
from streameval.events.records import Assignment, Partition, RecordBatch
from streameval.join.frontend import CopartitionedOwner, check_copartitioned
from streameval.testing.broker import Broker
from tests.batches import batch_of
from tests.cli.program import spawned
from tests.durability.checkpointing import assignment
from tests.effort import every_case
from tests.join.offline import Case
from tests.join.streams import join_frontend
from tests.join.test_daemon import JOIN, METRICS
from tests.kafka.topics import create, fill

CASE = Case([[[]], [[]]], window=1)
SHOWN = {"ts": 1, "request_id": "r1", "user": "u", "shown": ["a"]}
CLICK = {"ts": 1, "request_id": "r1", "user": "u", "item": "a", "type": "click", "event_id": "1"}


def batch(topic: str, number: int, record: object) -> RecordBatch:
    return batch_of(Partition(topic, number), [json.dumps(record).encode()])


def test_a_key_in_the_same_partition_of_every_topic_is_accepted() -> None:
    check_copartitioned(join_frontend(CASE), [batch("s0-0", 2, SHOWN), batch("s1-0", 2, CLICK)])


def test_a_key_in_different_partitions_is_refused() -> None:
    with pytest.raises(SplitKeyError, match="partition 2 of s0-0 and partition 1 of s1-0"):
        check_copartitioned(join_frontend(CASE), [batch("s0-0", 2, SHOWN), batch("s1-0", 1, CLICK)])


class Nobody:
    """An owner that gets no assignment."""

    def assigned(self, assignments: Sequence[Assignment]) -> Mapping[Partition, int]:
        raise AssertionError(assignments)

    def revoked(self, partitions: Sequence[Partition]) -> None: ...

    def lost(self, partitions: Sequence[Partition]) -> None: ...


@every_case(
    ("logs", "problem"),
    [
        ([("shown", 0, 2), ("clicked", 0, 3)], "differ: shown has 2, clicked has 3. Give all"),
        ([("shown", 0, 2), ("clicked", 0, 3), ("clicked", 2, 3)], "differ: shown has 2"),
        ([("clicked", 2, 3)], "partition 2 of shown was not assigned with it"),
    ],
)
def test_unequal_partitions_are_refused(logs: list[tuple[str, int, int]], problem: str) -> None:
    grouped = CopartitionedOwner(Nobody(), join_frontend(CASE).partition_of, ["shown", "clicked"])
    assignments = [
        assignment(partition=Partition(topic, number), identity=topic, partitions=partitions)
        for topic, number, partitions in logs
    ]
    with pytest.raises(UnevenStreamsError, match="the same number of partitions") as refused:
        grouped.assigned(assignments)
    assert problem in str(refused.value)


def test_a_daemon_refuses_topics_that_are_not_copartitioned(broker: Broker, tmp_path: Path) -> None:
    shown, clicked = create(broker, partitions=2), create(broker, partitions=2)
    at = "2026-01-01T00:00:00Z"
    seen = {"ts": at, "request_id": "r1", "recommendations": ["a"], "positions": [1]}
    fill(broker, shown, {0: [json.dumps(seen).encode()]})
    fill(broker, clicked, {1: [json.dumps({**CLICK, "ts": at}).encode()]})
    config = METRICS + JOIN.format(
        shown=shown, clicked=clicked, address=broker.bootstrap_servers, store=tmp_path / "state"
    )
    (tmp_path / "streameval.toml").write_text(config)
    done = spawned("run", tmp_path / "streameval.toml")
    assert done.returncode != 0
    assert "'r1' is in partition " in done.stderr
    assert f"partition 0 of {shown}" in done.stderr
    assert f"partition 1 of {clicked}" in done.stderr
