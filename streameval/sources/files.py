"""Files of newline-delimited JSON as a source: one partition a file, one record a line."""

from __future__ import annotations

from collections.abc import Iterator

from streameval.sources.ndjson import NdjsonFile


def lines(path: str) -> Iterator[bytes]:
    r"""The lines of one file without their newlines; blank lines are left out.

    Args:
        path: plain, gzip or zstd (by content, members joined), a pipe, or "-" for standard
            input. A last line without its newline counts.

    Raises:
        SourceError: the file is not there or not readable, or its compressed data is damaged
            or ends too early; the lines before the damage have been handed out by then.
    """
    file = NdjsonFile(path)
    try:
        while not file.finished:
            yield from (line for line in file.read() if not is_blank(line))
    finally:
        file.close()


def is_blank(line: bytes) -> bool:
    """Whether a line holds nothing, which newline-delimited JSON allows between records."""
    return not line or line.isspace()
