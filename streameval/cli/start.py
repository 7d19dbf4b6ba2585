"""Entry point of the command `streameval`, installed as a module outside the package."""

from __future__ import annotations

import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run one command and end the process; an interrupt ends it quietly, even during imports."""
    try:
        from streameval.cli import main as program  # noqa: PLC0415  the import may be interrupted

        program()
    except KeyboardInterrupt:
        sys.exit(130)
