"""Joins of impressions with their interactions, in one process or on any engine."""

from streameval.join.tables import (
    ROW_OUTCOMES,
    Attribution,
    Closed,
    JoinedTables,
    OpenRows,
    closed,
    joined,
    pieces,
    sides,
)

__all__ = [
    "ROW_OUTCOMES",
    "Attribution",
    "Closed",
    "JoinedTables",
    "OpenRows",
    "closed",
    "joined",
    "pieces",
    "sides",
]
