"""The work of `streameval run`."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from typer import Exit

from streameval.cli.ending import reading, status_of
from streameval.config import load
from streameval.daemon import Daemon, Stop, configure, emit
from streameval.errors import StreamevalError


def serve(path: Path, *, lifecycle: bool) -> None:
    """Run the daemon until a signal asks it to stop.

    Args:
        path: of the configuration.
        lifecycle: whether POST /-/reload is answered.

    Raises:
        ConfigError: the configuration does not say something that can be done.
        Exit: it failed while running; the log says why.
    """
    config = load(path)
    configure()
    try:
        with reading(path):
            daemon = Daemon(config, os.environ, reread=lambda: load(path), lifecycle=lifecycle)
        with Stop().on_signals() as stop:
            daemon.run(until=stop)
    except StreamevalError as error:
        emit(logging.ERROR, "failed", error=error)
        raise Exit(status_of(error)) from error
    emit(logging.INFO, "stopped", signal=stop.signal)
