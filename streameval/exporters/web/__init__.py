"""The HTTP server: a page, /metrics for Prometheus, a JSON API and health checks."""

from streameval.exporters.web.application import application
from streameval.exporters.web.server import Server, try_address
from streameval.exporters.web.webconfig import Security

__all__ = ["Security", "Server", "application", "try_address"]
