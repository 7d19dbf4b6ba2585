"""The newest records of some topics, read once and without a group."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Final

from streameval.records import Assignment, Partition, RecordBatch
from streameval.sources.kafka import KafkaSource
from streameval.sources.options import KafkaOptions

RECORDS: Final = 500
"""Of each partition."""

_SECONDS: Final = 5.0


class _FromTheEnd:
    """Begins a little before the end of each."""

    def __init__(self) -> None:
        self.ends: dict[Partition, int] = {}

    def assigned(self, assignments: Sequence[Assignment]) -> Mapping[Partition, int]:
        self.ends |= {each.partition: each.end for each in assignments}
        return {each.partition: max(each.begin, each.end - RECORDS) for each in assignments}

    def revoked(self, partitions: Sequence[Partition]) -> None:
        """Nothing to finish."""

    def lost(self, partitions: Sequence[Partition]) -> None:
        """Nothing to forget."""


def tails(
    options: KafkaOptions,
    environment: Mapping[str, str],
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[RecordBatch]:
    """Up to `RECORDS` records from the end of each partition; what comes within a few seconds.

    Args:
        options: which topics of which cluster.
        environment: what ${NAME} in the settings refers to.
        clock: seconds that only grow.

    Raises:
        SourceError: they cannot be read.
    """
    owner = _FromTheEnd()
    until = clock() + _SECONDS
    with closing(KafkaSource(options, environment)) as source:
        source.open(owner)
        reached: dict[Partition, int] = {}
        while clock() < until:
            for batch in source.poll(0.1):
                reached[batch.partition] = batch.next_offset
                yield batch
            if owner.ends and all(reached.get(each, 0) >= end for each, end in owner.ends.items()):
                return
