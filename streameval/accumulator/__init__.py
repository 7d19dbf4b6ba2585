"""The accumulator: statistics of many cells in one table, metrics, intervals and comparisons."""

from streameval.accumulator.accumulator import Accumulator

SharedAccumulator = Accumulator
"""Another name: several threads may use any accumulator."""

__all__ = ["Accumulator", "SharedAccumulator"]
