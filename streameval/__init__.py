"""Online evaluation of recommender systems: exact, mergeable, from a stream of events."""

import logging

from streameval.accumulator import Accumulator
from streameval.accumulator.comparison import Comparison, compare
from streameval.accumulator.gap import Gap, gap
from streameval.accumulator.planning import ExperimentPlan, plan
from streameval.accumulator.shared import SharedAccumulator
from streameval.catalogue import metric_at
from streameval.catalogue.context import Popularity, Similarity
from streameval.catalogue.metric import metric
from streameval.catalogue.reading import Reading
from streameval.events import Batch, Event, Interaction
from streameval.events.columns import Columns
from streameval.statistics.intervals import Interval, Intervals

__all__ = [
    "Accumulator",
    "Batch",
    "Columns",
    "Comparison",
    "Event",
    "ExperimentPlan",
    "Gap",
    "Interaction",
    "Interval",
    "Intervals",
    "Popularity",
    "Reading",
    "SharedAccumulator",
    "Similarity",
    "compare",
    "gap",
    "metric",
    "metric_at",
    "plan",
]
__version__ = "0.2.0"

# Silent in a user's program until it configures logging; Python would print warnings otherwise.
_log = logging.getLogger(__name__)
if not _log.handlers:
    _log.addHandler(logging.NullHandler())
