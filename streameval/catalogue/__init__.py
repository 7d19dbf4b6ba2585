"""The catalogue: the definition of a metric, its text, and all metrics."""

from streameval.catalogue.lookup import catalogue, metric_at, metric_of, parameters, parse

__all__ = ["catalogue", "metric_at", "metric_of", "parameters", "parse"]
