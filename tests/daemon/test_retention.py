"""Records that retention deletes before a daemon counts them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Literal

import pytest

from streameval.config import Config
from streameval.config.tables import StateOptions
from streameval.daemon import ProcessClock
from streameval.daemon.assembly import Assembly, assemble
from streameval.events.errors import RefusedStateError
from streameval.events.records import Partition
from streameval.testing.broker import Broker
from tests.effort import PATIENCE
from tests.kafka.topics import create, fill, options, shortened

pytestmark = pytest.mark.kafka

EVENT = b'{"recommendations": ["a", "b"], "interactions": ["b"]}'


@contextmanager
def _counting(config: Config) -> Iterator[Assembly]:
    parts = assemble(config, {}, ProcessClock())
    try:
        parts.source.open(parts.checkpointer)
        yield parts
    finally:
        parts.close()


def _turn_until(parts: Assembly, condition: Callable[[], bool]) -> None:
    deadline = monotonic() + PATIENCE
    while not condition():
        assert monotonic() < deadline, parts.source.status.problem
        for batch in parts.source.poll(0.1):
            parts.checkpointer.apply(batch)


def _position(parts: Assembly, topic: str) -> int | None:
    state = parts.ingest.partitions.get(Partition(topic, 0))
    return None if state is None else state.position


def _lose_two(broker: Broker, topic: str) -> None:
    fill(broker, topic, {0: [EVENT] * 3})
    shortened(broker, topic, 6)


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("policy", ["skip", "fail"])
def test_retention_that_overtakes_follows_the_policy_running_and_restarted(
    broker: Broker, tmp_path: Path, policy: Literal["skip", "fail"], *, restarted: bool
) -> None:
    topic = create(broker)
    config = Config(
        metrics=["hit_rate@1"],
        source=options(broker, topic, group=topic, fetch_max_wait_ms=50),
        state=StateOptions(path=str(tmp_path / "state"), on_retention=policy),
    )
    fill(broker, topic, {0: [EVENT] * 4})
    with _counting(config) as parts:
        _turn_until(parts, lambda: _position(parts, topic) == 4)
        if restarted:
            parts.checkpointer.finish()
        else:
            _overtake(parts, broker, topic)
            _see(parts, topic, policy, counted=5)
    if restarted:
        _lose_two(broker, topic)
        with _counting(config) as parts:
            _see(parts, topic, policy, counted=1)


def _overtake(parts: Assembly, broker: Broker, topic: str) -> None:
    """Delete the next records while reading is paused."""
    parts.source.pause([Partition(topic, 0)])
    for _ in range(10):
        assert not parts.source.poll(0.1)
    _lose_two(broker, topic)
    parts.source.pause([])


def _see(parts: Assembly, topic: str, policy: str, *, counted: int) -> None:
    if policy == "fail":
        with pytest.raises(RefusedStateError, match="2 offsets were never counted"):
            _turn_until(parts, lambda: False)
        return
    _turn_until(parts, lambda: _position(parts, topic) == 7)
    assert parts.checkpointer.health is not None
    assert parts.checkpointer.health.skipped == 2
    told = [log_event.event for log_event in parts.checkpointer.take_log_events()]
    assert told.count("records were lost before they were counted") == 1
    parts.checkpointer.finish()
    assert parts.checkpointer.counted is not None
    assert [lists for _, lists in parts.checkpointer.counted.values()] == [counted]
