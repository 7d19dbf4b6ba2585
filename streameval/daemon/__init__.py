"""The daemon: one process, one ingest loop, and readers that see only what it publishes."""

from streameval.daemon.clock import Clock
from streameval.daemon.log import configure, emit
from streameval.daemon.process import SINCE_START, Daemon
from streameval.daemon.reload import restart
from streameval.daemon.stopping import Stop

__all__ = ["SINCE_START", "Clock", "Daemon", "Stop", "configure", "emit", "restart"]
