"""The daemon: one process with one ingest loop; readers see only published snapshots."""

from streameval.checkpoints.scheduler import ProcessClock
from streameval.daemon.log import configure, emit
from streameval.daemon.process import Daemon, StopSignal

__all__ = ["Daemon", "ProcessClock", "StopSignal", "configure", "emit"]
