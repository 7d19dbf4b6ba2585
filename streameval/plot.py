"""Charts in a notebook."""

from streameval.evaluation.plot import lifts, over_time, readings, row

__all__ = ["lifts", "over_time", "readings", "row"]
