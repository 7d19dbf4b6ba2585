"""The daemon: one process with one ingest loop; readers see published snapshots only."""

from streameval.checkpoints.scheduler import Clock
from streameval.daemon.log import configure, emit
from streameval.daemon.process import SINCE_START, Daemon, Stop
from streameval.daemon.reload import restart

__all__ = ["SINCE_START", "Clock", "Daemon", "Stop", "configure", "emit", "restart"]
