"""Telling a file from another one that has its name."""

from __future__ import annotations

import hashlib
import stat
from pathlib import Path
from typing import Final

from streameval.errors import SourceError
from streameval.sources.compression import decompressed
from streameval.sources.opening import STDIN, unreadable

_HEAD: Final = 4096
"""Bytes of the file that are looked at, as they lie in it."""


def identity(path: str) -> str:
    """A digest of the first line, by content; "-" for what can be read only once (a pipe).

    A file that is appended to keeps it. Only the first 4 KiB are looked at; where they hold no
    decompressed byte yet, they themselves are what is digested.

    Raises:
        SourceError: the file is not there, or not readable.
    """
    if path == STDIN:
        return STDIN
    try:
        if not stat.S_ISREG(Path(path).stat().st_mode):
            return STDIN
        with Path(path).open("rb") as file:
            head = file.read(_HEAD)
    except OSError as error:
        raise unreadable(path, error) from error
    return hashlib.blake2b(_first_line(path, head), digest_size=16).hexdigest()


def _first_line(path: str, head: bytes) -> bytes:
    try:
        content = next(filter(None, decompressed(path, iter((head,)))), b"")
    except SourceError:
        # Damage is for the reader to tell, after the lines before it.
        content = b""
    return content.partition(b"\n")[0][:_HEAD] if content else head
