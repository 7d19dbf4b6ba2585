"""Online evaluation of recommender systems: exact, mergeable, from a stream of events."""

from streameval.accumulator import Accumulator
from streameval.accumulator.comparison import Comparison, compare
from streameval.accumulator.shared import SharedAccumulator
from streameval.catalogue import metric_at
from streameval.catalogue.context import Popularity, Similarity
from streameval.catalogue.metric import metric
from streameval.catalogue.reading import Reading
from streameval.columns import Columns
from streameval.events import Batch, Event, Interaction
from streameval.logging import quiet
from streameval.statistics.intervals import Interval, Intervals

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
    "SharedAccumulator",
    "Similarity",
    "compare",
    "metric",
    "metric_at",
]
__version__ = "0.1.0"

quiet()
