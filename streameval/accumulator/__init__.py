"""The accumulator: statistics of many cells in one table, metrics, intervals and comparisons."""

from streameval.accumulator.accumulator import Accumulator

__all__ = ["Accumulator"]
