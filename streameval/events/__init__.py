"""Events, batches of them as columns, and the records that they come in."""

from streameval.events.event import (
    LARGEST_GAIN,
    LARGEST_RANK,
    Batch,
    Event,
    Id,
    Interaction,
    Interactions,
    columns_of,
    plain,
)

__all__ = [
    "LARGEST_GAIN",
    "LARGEST_RANK",
    "Batch",
    "Event",
    "Id",
    "Interaction",
    "Interactions",
    "columns_of",
    "plain",
]
