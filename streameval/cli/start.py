"""Entry point of the command `streameval`, installed as a module outside the package."""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run one command and end the process; an interrupt ends it quietly, even during imports."""
    if os.getpid() == 1:
        # Linux ignores these in the first process of a container by default.
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda received, _: os._exit(128 + received))
    try:
        from streameval.cli import run_command  # noqa: PLC0415  the import may be interrupted

        run_command()
    except KeyboardInterrupt:
        sys.exit(130)
