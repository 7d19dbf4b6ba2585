"""What a metric is, how its text is written, and all metrics there are."""

from streameval.catalogue.lookup import catalogue, metric_at, metric_of, parameters, parse

__all__ = ["catalogue", "metric_at", "metric_of", "parameters", "parse"]
