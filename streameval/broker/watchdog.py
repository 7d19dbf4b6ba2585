"""What ends the broker when the process that started it can no longer do so."""

from __future__ import annotations

import subprocess
from pathlib import Path

_SCRIPT = """
while read -r line; do group=$line; done
[ -n "$group" ] && kill -KILL "-$group" 2>/dev/null
rm -rf -- "$1"
"""


class Watchdog:
    """A shell that waits on a pipe whose other end only this process holds.

    However this process ends, the pipe closes, and the shell kills the watched process group and
    removes `directory`. It has a session of its own, so that Ctrl-C does not reach it first.

    Args:
        directory: what to remove in the end.
    """

    def __init__(self, directory: Path) -> None:
        self._shell = subprocess.Popen(  # noqa: S603  our own script
            ("/bin/sh", "-c", _SCRIPT, "watchdog", str(directory)),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def watch(self, group: int | None) -> None:
        """Name the process group to kill in the end; None while there is none."""
        if self._shell.stdin is not None:
            self._shell.stdin.write(b"%s\n" % (b"" if group is None else b"%d" % group))
            self._shell.stdin.flush()

    def dismiss(self) -> None:
        """Let it do its last duty now, and wait for it."""
        if self._shell.stdin is not None:
            self._shell.stdin.close()
        self._shell.wait()
