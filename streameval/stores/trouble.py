"""What the operating system says of a disk, in sentences that say what to do."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from streameval.errors import StoreError

_ELSEWHERE = "or name another folder under [state] path"
_REMEDIES: Final[Mapping[int, str]] = {
    errno.ENOSPC: f"free some space there, {_ELSEWHERE}",
    errno.EDQUOT: f"free some space there or raise the quota, {_ELSEWHERE}",
    errno.EACCES: f"let this user read and write there, {_ELSEWHERE}",
    errno.EPERM: f"let this user read and write there, {_ELSEWHERE}",
    errno.EROFS: f"mount it for writing, {_ELSEWHERE}",
    errno.EIO: f"look at the disk and at the kernel's log, {_ELSEWHERE}",
    errno.ENOTDIR: "a file stands where a folder should; name a folder under [state] path",
    errno.EEXIST: "a file stands where a folder should; name a folder under [state] path",
    errno.ENAMETOOLONG: "give the file that is read a shorter path",
    errno.ENOENT: "see that the disk is mounted",
}


@contextmanager
def told_of(store: Path) -> Iterator[None]:
    """Within, what the disk refuses is a StoreError.

    Raises:
        StoreError: where, what the system says, and what to do.
    """
    try:
        yield
    except OSError as error:
        where = str(error.filename or store)
        problem = (error.strerror or str(error)).lower()
        remedy = _REMEDIES.get(error.errno or 0, f"look at the disk, {_ELSEWHERE}")
        raise StoreError(where, problem, remedy) from error
