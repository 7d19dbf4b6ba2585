"""Online evaluation of recommender systems: exact, mergeable, from a stream of events."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from streameval.accumulator import Accumulator
from streameval.accumulator.kinds.experiment import PrePeriod
from streameval.catalogue import metric_at
from streameval.catalogue.items import Attribute, Popularity, Similarity
from streameval.catalogue.metric import metric
from streameval.catalogue.reading import Reading
from streameval.catalogue.signature import By
from streameval.events import Batch, Event, Interaction
from streameval.events.analysis_registry import register_analyses
from streameval.statistics.intervals import Interval, Intervals

if TYPE_CHECKING:
    from streameval.analyses.changes.report import Change, ChangeSettings
    from streameval.analyses.changes.statistics import changes
    from streameval.analyses.experiments.comparison import Comparison
    from streameval.analyses.experiments.planning import ExperimentPlan, plan
    from streameval.analyses.experiments.runs import ComparisonReport, compare
    from streameval.analyses.gaps.statistics import Gap, gap
    from streameval.evaluation.evaluation import Evaluation, evaluate
    from streameval.events.columns import Columns

__all__ = [
    "Accumulator",
    "Attribute",
    "Batch",
    "By",
    "Change",
    "ChangeSettings",
    "Columns",
    "Comparison",
    "ComparisonReport",
    "Evaluation",
    "Event",
    "ExperimentPlan",
    "Gap",
    "Interaction",
    "Interval",
    "Intervals",
    "Popularity",
    "PrePeriod",
    "Reading",
    "Similarity",
    "changes",
    "compare",
    "evaluate",
    "gap",
    "metric",
    "metric_at",
    "plan",
]
__version__ = "0.3.0.dev0"

register_analyses("streameval.analyses.registry")

# Analyses and what reads columns or files: a loop that only counts single events needs neither.
_LATER = {
    "Columns": "streameval.events.columns",
    "Change": "streameval.analyses.changes.report",
    "ChangeSettings": "streameval.analyses.changes.report",
    "Comparison": "streameval.analyses.experiments.comparison",
    "ExperimentPlan": "streameval.analyses.experiments.planning",
    "Gap": "streameval.analyses.gaps.statistics",
    "changes": "streameval.analyses.changes.statistics",
    "gap": "streameval.analyses.gaps.statistics",
    "plan": "streameval.analyses.experiments.planning",
    "ComparisonReport": "streameval.analyses.experiments.runs",
    "Evaluation": "streameval.evaluation.evaluation",
    "compare": "streameval.analyses.experiments.runs",
    "evaluate": "streameval.evaluation.evaluation",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        problem = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(problem)
    value = getattr(import_module(_LATER[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
