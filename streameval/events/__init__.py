"""Events, batches of them as columns, and the records that they come in."""

from streameval.events.event import (
    BESIDE,
    LARGEST_GAIN,
    LARGEST_RANK,
    Batch,
    Event,
    Id,
    Interaction,
    Interactions,
    columns_of,
    largest_gains,
    plain,
)

__all__ = [
    "BESIDE",
    "LARGEST_GAIN",
    "LARGEST_RANK",
    "Batch",
    "Event",
    "Id",
    "Interaction",
    "Interactions",
    "columns_of",
    "largest_gains",
    "plain",
]
