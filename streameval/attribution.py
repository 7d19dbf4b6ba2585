"""Joins of impressions with their interactions, in one process or on any engine."""

from streameval.join import tables as _tables
from streameval.join.tables import *  # noqa: F403  the address that users import them from

__all__ = _tables.__all__
