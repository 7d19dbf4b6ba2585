"""Events, batches of events as columns, and the records that carry them."""

from streameval.events.batch import (
    OPTIONAL_COLUMNS,
    Batch,
    ItemGroup,
    Matches,
    OtherTypes,
    columns_of,
)
from streameval.events.event import (
    LARGEST_RANK,
    Event,
    Id,
    Interaction,
    Interactions,
    built_in_id,
    combine_interactions,
)
from streameval.events.gains import LARGEST_GAIN, Combine, combine_gains

__all__ = [
    "LARGEST_GAIN",
    "LARGEST_RANK",
    "OPTIONAL_COLUMNS",
    "Batch",
    "Combine",
    "Event",
    "Id",
    "Interaction",
    "Interactions",
    "ItemGroup",
    "Matches",
    "OtherTypes",
    "built_in_id",
    "columns_of",
    "combine_gains",
    "combine_interactions",
]
