"""HTTP: what Prometheus, a person and a program each ask for."""

from streameval.exporters.web.application import application
from streameval.exporters.web.server import Server, try_address

__all__ = ["Server", "application", "try_address"]
