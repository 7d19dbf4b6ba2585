"""Letters of every kind."""

from __future__ import annotations

from typing import get_args

from hypothesis import strategies as st

from streameval.decoding.invalid import REASONS
from streameval.engine.dead_letters import DeadLetter, Stage
from streameval.events.records import Partition


def letter(
    offset: int = 14,
    *,
    topic: str = "events",
    number: int = 0,
    value: bytes = b"not json",
    key: bytes | None = b"key",
    headers: tuple[tuple[str, bytes], ...] = (("trace", b"7"),),
) -> DeadLetter:
    """A letter about a record that is no JSON."""
    return DeadLetter(
        partition=Partition(topic, number),
        offset=offset,
        timestamp_ms=1_700_000_000_000 + offset,
        key=key,
        headers=headers,
        value=value,
        stage="decode",
        reason="not_json",
        message=f"found {offset} at the beginning",
    )


header_names = st.text(max_size=5) | st.sampled_from(
    ["streameval.dlq.topic", "streameval.dlq.message", "streameval.original"]
)
letters = st.builds(
    DeadLetter,
    partition=st.builds(Partition, st.sampled_from(["events", "a/b.c"]), st.integers(0, 9)),
    offset=st.integers(0, 2**62),
    timestamp_ms=st.none() | st.integers(0, 2**62),
    key=st.none() | st.binary(),
    headers=st.lists(st.tuples(header_names, st.binary(max_size=5))).map(tuple),
    value=st.binary(),
    stage=st.sampled_from(get_args(Stage)),
    reason=st.sampled_from(list(REASONS)),
    message=st.text(),
)
