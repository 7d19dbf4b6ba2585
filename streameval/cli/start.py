"""Entry point of the command `streameval`, installed as a module outside the package."""

from __future__ import annotations

import os
import signal
import sys
from mmap import mmap
from typing import NoReturn


def main() -> NoReturn:
    """Run one command and end the process; a signal ends it quietly, even during imports.

    A daemon that has not begun has nothing to save, so SIGTERM ends it with status 0, as later.
    """
    is_daemon = sys.argv[1:2] in (["run"], ["serve"])
    if os.getpid() == 1 or is_daemon:
        # Linux ignores these in the first process of a container by default.
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)  # Windows has one of them
            # Under nohup a daemon ignores SIGHUP; the first process of a container never does.
            is_ignored = number is None or signal.getsignal(number) is signal.SIG_IGN
            if number is not None and (os.getpid() == 1 or not is_ignored):
                signal.signal(number, _exit_of_daemon if is_daemon else _exit)
    try:
        try:
            from streameval.cli import run_command  # noqa: PLC0415  the import may be interrupted
        except (ImportError, MemoryError, SystemError) as error:
            if not _is_out_of_memory(error):
                raise
            sys.stderr.write("streameval: no memory is left to start; allow more.\n")
            sys.exit(1)
        run_command()
    except KeyboardInterrupt:
        sys.exit(130)


def _is_out_of_memory(error: BaseException) -> bool:
    """As `streameval.events.out_of_memory`, which cannot be imported then."""
    try:
        mmap(-1, 1 << 28).close()
    except OSError:
        return not isinstance(error, ModuleNotFoundError)
    return isinstance(error, MemoryError)


def _exit(number: int, _: object) -> NoReturn:
    os._exit(128 + number)


def _exit_of_daemon(_: int, __: object) -> NoReturn:
    os._exit(0)
