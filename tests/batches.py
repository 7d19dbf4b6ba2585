"""Batches of records as a source delivers them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from streameval.engine.windows.sections import Section
from streameval.events.records import Partition, RecordBatch


def batch_of(
    partition: Partition, values: Sequence[bytes | None], start: int = 0, **more: Any
) -> RecordBatch:
    """Records of a partition, with offsets from `start` without gaps."""
    end = start + len(values)
    return RecordBatch(
        partition=partition, values=values, offsets=range(start, end), next_offset=end, **more
    )


def content_of(sections: Iterable[Section]) -> dict[str, bytes]:
    """The bytes of each section of a state."""
    return {section.name: b"".join(section.content()()) for section in sections}
