"""Opening files, and the sentence for each way in which that fails."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from streameval.errors import SourceError

STDIN = "-"


def size(path: str) -> int | None:
    """The size of a file that can be read, in bytes; None where it has none (a pipe).

    Raises:
        SourceError: it is not there, not readable, or a directory.
    """
    if path == STDIN:
        return None
    try:
        status = Path(path).stat()
        _refuse_unreadable(path, status)
    except OSError as error:
        raise unreadable(path, error) from error
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _refuse_unreadable(path: str, status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not os.access(path, os.R_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def unreadable(path: str, error: OSError) -> SourceError:
    """What to tell a user whose file the system does not give us."""
    problem = (error.strerror or str(error)).lower()
    remedy = "check the path and its permissions"
    if isinstance(error, IsADirectoryError):
        remedy = f"name the files in it, for example {path.rstrip('/')}/*.ndjson"
    return SourceError(path, problem, remedy)


def opened(path: str) -> int:
    """A descriptor of the file, open for reading.

    Raises:
        SourceError: it is not there, not readable, or a directory.
    """
    size(path)
    try:
        return 0 if path == STDIN else os.open(path, os.O_RDONLY)
    except OSError as error:
        raise unreadable(path, error) from error
