"""Partial results, counted anywhere and merged exactly."""

from streameval.evaluation.partials import (
    Cell,
    Counter,
    Partial,
    arrow_table,
    merged,
    partials,
    repacked,
    stored,
)

__all__ = ["Cell", "Counter", "Partial", "arrow_table", "merged", "partials", "repacked", "stored"]
