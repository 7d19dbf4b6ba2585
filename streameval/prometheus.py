"""Accumulators in the registry of `prometheus_client`."""

from streameval.exporters.embedded import Collector

__all__ = ["Collector"]
