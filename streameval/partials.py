"""Partial results, counted anywhere and merged exactly."""

from streameval.evaluation import partials as _partials
from streameval.evaluation.partials import *  # noqa: F403  the address that users import them from

__all__ = _partials.__all__
