"""Statistics of many cells in one table, the metrics asked of them, and how they compare."""

from streameval.accumulator.accumulator import Accumulator

__all__ = ["Accumulator"]
