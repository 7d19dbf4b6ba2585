"""Charts in a notebook."""

from streameval.analyses.experiments.runs import lifts
from streameval.evaluation.plot import over_time, readings, row

__all__ = ["lifts", "over_time", "readings", "row"]
