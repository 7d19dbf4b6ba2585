"""Online evaluation of recommender systems: exact, mergeable, from a stream of events."""

from streameval.accumulator import Accumulator
from streameval.catalogue import metric_at
from streameval.catalogue.context import Popularity, Similarity
from streameval.catalogue.metric import metric
from streameval.catalogue.reading import Reading
from streameval.columns import Columns
from streameval.comparison import Comparison, compare
from streameval.events import Batch, Event, Interaction
from streameval.intervals import Interval, Intervals
from streameval.logging import quiet

__all__ = [
    "Accumulator",
    "Batch",
    "Columns",
    "Comparison",
    "Event",
    "Interaction",
    "Interval",
    "Intervals",
    "Popularity",
    "Reading",
    "Similarity",
    "compare",
    "metric",
    "metric_at",
]
__version__ = "0.1.0"

quiet()
