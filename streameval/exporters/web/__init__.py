"""HTTP: what Prometheus, a person and a program each ask for."""

from streameval.exporters.web.application import application
from streameval.exporters.web.limits import Limits
from streameval.exporters.web.protection import Protection, Shield
from streameval.exporters.web.server import Server, try_address

__all__ = ["Limits", "Protection", "Server", "Shield", "application", "try_address"]
