"""Accumulators in the registry of `prometheus_client`."""

from streameval.events.extras import imports_of

with imports_of("streameval.prometheus", "daemon"):
    from streameval.exporters.embedded import Collector

__all__ = ["Collector"]
