"""Partial results, counted anywhere and merged exactly."""

from streameval.evaluation.partials import (
    Counter,
    Partial,
    arrow_table,
    merged,
    partials,
    repacked,
    stored,
)
from streameval.evaluation.slice_counts import Cell

__all__ = ["Cell", "Counter", "Partial", "arrow_table", "merged", "partials", "repacked", "stored"]
