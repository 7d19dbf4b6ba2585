"""Records as they lie in a log, before anything is known of their content."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec


class Partition(NamedTuple):
    """One ordered log.

    Attributes:
        topic: a topic's name, a file's path, or "simulator".
        number: from 0; always 0 for a file.
    """

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.number}]"


class RecordBatch(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Consecutive records of one partition.

    Attributes:
        partition: where they lie.
        values: each record's bytes; None for a tombstone.
        offsets: each record's offset, ascending; a log may have gaps.
        next_offset: where to go on after this batch; above every offset in it.
    """

    partition: Partition
    values: Sequence[bytes | None]
    offsets: Sequence[int]
    next_offset: int
