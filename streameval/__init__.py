"""Online evaluation of recommender systems: exact, mergeable, from a stream of events."""

from streameval.accumulator import Accumulator
from streameval.catalogue import metric_at
from streameval.columns import Columns
from streameval.comparison import Comparison, compare
from streameval.events import Batch, Event, Interaction
from streameval.intervals import Interval, Intervals
from streameval.logging import quiet
from streameval.metric import metric
from streameval.reading import Reading

__all__ = [
    "Accumulator",
    "Batch",
    "Columns",
    "Comparison",
    "Event",
    "Interaction",
    "Interval",
    "Intervals",
    "Reading",
    "compare",
    "metric",
    "metric_at",
]
__version__ = "0.1.0"

quiet()
