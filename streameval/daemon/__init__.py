"""The daemon: one process, one ingest loop, and readers that see only what it publishes."""

from streameval.daemon.clock import Clock
from streameval.daemon.log import configure, emit
from streameval.daemon.stopping import Stop

__all__ = ["Clock", "Stop", "configure", "emit"]
