"""The daemon: one process with one ingest loop; readers see only published snapshots."""

from streameval.checkpoints.scheduler import Clock
from streameval.daemon.log import configure, emit
from streameval.daemon.process import Daemon, Stop

__all__ = ["Clock", "Daemon", "Stop", "configure", "emit"]
