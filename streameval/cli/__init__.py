"""The command line: one module per command."""

from __future__ import annotations

import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run one command and end the process."""
    try:
        from streameval.cli.app import main as program  # noqa: PLC0415  worker processes need no app
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "streameval":
            raise
        sys.stderr.write(
            f"streameval: the command line needs the extra 'daemon' ({error}); "
            "pip install 'streameval[daemon]', or '.[daemon]' in a checkout.\n"
        )
        sys.exit(2)
    program()
