"""The catalogue: definitions of metrics, their text forms, and the list of all metrics."""

from streameval.catalogue.companions import companion, denominator
from streameval.catalogue.lookup import (
    catalogue,
    metric_at,
    metric_of,
    parameters,
    parse,
)

__all__ = [
    "catalogue",
    "companion",
    "denominator",
    "metric_at",
    "metric_of",
    "parameters",
    "parse",
]
