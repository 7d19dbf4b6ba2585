"""The command line: one file a command."""

from __future__ import annotations

import sys
from typing import NoReturn

__all__ = ["main"]


def main() -> NoReturn:
    """Run one command and end the process; an interrupt ends it quietly, also while it starts."""
    try:
        from streameval.cli.app import main as program  # noqa: PLC0415  takes most of the start

        program()
    except KeyboardInterrupt:
        sys.exit(130)
