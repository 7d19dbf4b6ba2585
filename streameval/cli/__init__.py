"""The command line: one module per command."""

from __future__ import annotations

import sys
from typing import NoReturn


def run_command() -> NoReturn:
    """Run one command and end the process: 0 done, 1 failed at run time, 2 wrong usage."""
    try:
        from streameval.cli.app import status  # noqa: PLC0415  worker processes need no app
        from streameval.evaluation.shell.exits import prepare_streams  # noqa: PLC0415  nor streams
    except (ImportError, MemoryError, SystemError) as error:
        from streameval.events.out_of_memory import REMEDY, is_out_of_memory  # noqa: PLC0415  as above

        if is_out_of_memory(error):
            sys.stderr.write(f"streameval: no memory is left; {REMEDY}.\n")
            sys.exit(1)
        name = error.name if isinstance(error, ModuleNotFoundError) else "streameval"
        if (name or "").partition(".")[0] == "streameval":
            raise
        sys.stderr.write(
            f"streameval: the command line needs the extra 'daemon' ({error}); "
            "pip install 'streameval[daemon]', or '.[daemon]' in a checkout.\n"
        )
        sys.exit(2)
    # Users' own metrics are modules in the working folder; last, so that they shadow nothing.
    sys.path.append("")
    prepare_streams()
    sys.exit(status(sys.argv[1:]))
