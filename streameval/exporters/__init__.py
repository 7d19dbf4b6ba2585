"""Exporters of readings: Prometheus, the page and its API."""
