"""Finds, opens and decompresses files: plain, gzip, zstd and pipes.

Functions raise SourceError if a file is missing, damaged or cannot be read.
"""

from __future__ import annotations

import errno
import glob
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

from streameval.events.errors import SourceError
from streameval.events.extras import import_extra
from streameval.sources import remote
from streameval.sources.settings import STDIN

_BLOCK = 1 << 20
LARGEST_READ: Final = 1 << 29
"""Most decompressed bytes of a file that is read at once."""
_WILD: Final = re.compile(r"[*?[]")


def expand(path: str, has_rows: Callable[[str], bool]) -> list[str]:
    """The files that a path names: one file, the matches of a pattern, or the files in a folder.

    Args:
        path: a file, a pattern with *, ?, [...] or ** (any folders), or a folder, which is
            searched recursively without names that begin with "." or "_".
        has_rows: selects files of a folder by name.
    """
    there = not remote.is_remote(path) and (path == STDIN or Path(path).is_file())
    if not there and _WILD.search(path):
        paths = _matching(path)
        if not paths:
            raise SourceError(path, "no file matches", "check the pattern")
        return paths
    is_folder = path.endswith("/") if remote.is_remote(path) else Path(path).is_dir()
    if there or not is_folder:
        return [path]
    paths = _below(path, has_rows)
    if not paths:
        remedy = "name the files, or give a folder with .parquet, .csv or .ndjson files"
        raise SourceError(path, "no file of events in this folder", remedy)
    return paths


_MOST: Final = 100_000
"""Files of a folder that is searched: more are a mistake, such as `/` for an empty variable."""


def _below(folder: str, has_rows: Callable[[str], bool]) -> list[str]:
    """The files with rows in a folder and its subfolders, without hidden files and folders."""
    is_remote = remote.is_remote(folder)
    root = len(folder.rstrip("/")) + 1
    hidden = re.compile(r"(^|/)[._]")
    paths = []
    for number, name in enumerate(remote.below(folder) if is_remote else _walk(folder)):
        if number == _MOST:
            remedy = "name the files or folders to read, or a pattern"
            raise SourceError(folder, f"more than {_MOST:,} files are below it", remedy)
        if (
            not hidden.search(name[root:])
            and has_rows(name)
            and (is_remote or Path(name).is_file())
        ):
            paths.append(name)
    return sorted(paths)


def _walk(folder: str) -> Iterator[str]:
    entered = set[Path]()
    for path, folders, files in os.walk(folder.rstrip("/") or "/", followlinks=True):
        # Hidden folders are not entered; the others once each, whatever links lead to them.
        real = Path(path).resolve()
        folders[:] = [name for name in folders if name[0] not in "._" and real not in entered]
        if real not in entered:
            yield from (f"{path.rstrip('/')}/{name}" for name in files)
        entered.add(real)


def _matching(pattern: str) -> list[str]:
    if not remote.is_remote(pattern):
        matching = glob.glob(pattern, recursive=True)  # noqa: PTH207  text in, text out
        return sorted(candidate for candidate in matching if Path(candidate).is_file())
    begin = pattern[: _WILD.search(pattern).start()]  # type: ignore[union-attr]  # it has one
    wild = re.compile(_expression(pattern))
    return sorted(filter(wild.fullmatch, remote.below(begin.rpartition("/")[0])))


def _expression(pattern: str) -> str:
    r"""A pattern of paths as a regular expression.

    >>> print(_expression("s3://b/**/day=?/*.pq"))
    s3://b/(?:.*/)?day=[^/]/[^/]*\.pq
    """
    parts = re.split(r"(\*\*/|\*|\?|\[[^\]]+\])", pattern)
    wildcards = {"**/": "(?:.*/)?", "*": "[^/]*", "?": "[^/]"}
    return "".join(
        wildcards.get(part, part.replace("[!", "[^") if part.startswith("[") else re.escape(part))
        for part in parts
    )


def size(path: str) -> int | None:
    """The size of a readable file, in bytes; None if it has none (a pipe)."""
    if path == STDIN:
        return None
    if remote.is_remote(path):
        return remote.object_size(path)
    try:
        status = Path(path).stat()
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not os.access(path, os.R_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise unreadable(path, error) from error
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def unreadable(path: str, error: OSError) -> SourceError:
    """The SourceError for a file that cannot be opened."""
    problem = (error.strerror or str(error)).lower()
    remedy = "check the path and its permissions"
    if isinstance(error, IsADirectoryError):
        remedy = f"name the files in it, for example {path.rstrip('/')}/*.ndjson"
    return SourceError(path, problem, remedy)


def open_descriptor(path: str) -> int:
    """A file descriptor, open for reading."""
    if remote.is_remote(path):
        return remote.open_copy(path)
    size(path)
    try:
        return 0 if path == STDIN else os.open(path, os.O_RDONLY)
    except OSError as error:
        raise unreadable(path, error) from error


def content(path: str) -> Iterator[bytes]:
    """The decompressed content of a file, in blocks of 32 MiB at most.

    For what is read piece by piece; `read_all` bounds what is read at once.
    """
    descriptor = open_descriptor(path)
    try:
        yield from decompress(path, iter(lambda: os.read(descriptor, _BLOCK), b""))
    except OSError as error:
        raise unreadable(path, error) from error
    finally:
        if descriptor:
            os.close(descriptor)


def read_all(path: str, most: int = LARGEST_READ) -> bytes:
    """The decompressed content of a file.

    Raises:
        SourceError: it has more than `most` bytes.
    """
    pieces, total = [], 0
    for piece in content(path):
        total += len(piece)
        if total > most:
            problem = f"it holds more than {most:,} bytes"
            raise SourceError(path, problem, "split it, or write it as parquet in row groups")
        pieces.append(piece)
    return b"".join(pieces)


class _Format(NamedTuple):
    """A format of compressed files.

    Attributes:
        module: what decompresses it; imported when a file needs it.
        decoder: makes a decoder for one compressed stream, with the module.
        error: the module's error for damaged data.
        step: so many bytes hold at most 16 MiB: a byte of gzip is 1,032 at most, 4 of zstd 128 KiB.
    """

    name: str
    module: str
    decoder: Callable[[Any], Any]
    error: str
    step: int


_STEP: Final = 1 << 24
"""Decompressed bytes from which on a block is passed on."""

_FORMATS: Final[Mapping[bytes, _Format]] = {
    b"\x1f\x8b": _Format(
        "gzip", "zlib", lambda zlib: zlib.decompressobj(wbits=31), "error", _STEP // 1_032
    ),
    b"\x28\xb5\x2f\xfd": _Format(
        "zstd",
        "zstandard",
        lambda zstd: zstd.ZstdDecompressor().decompressobj(),
        "ZstdError",
        _STEP // (1 << 15),
    ),
}
"""Magic bytes -> format."""

_UNREAD: Final = {b"BZh": "bzip2", b"\xfd7zXZ\0": "xz", b"PK\x03\x04": "zip"}
"""Magic bytes -> unsupported format; otherwise the error would be about UTF-8."""

_SUFFIXES = {".gz": "gzip", ".zst": "zstd"}
_LONGEST = max(map(len, [*_FORMATS, *_UNREAD]))


def decompress(path: str, blocks: Iterator[bytes]) -> Iterator[bytes]:
    """The decompressed content of a file's blocks: plain, gzip or zstd, members joined.

    Each input block yields one output block, possibly empty, so that a caller reading from a pipe
    never waits for more than one read; several if it holds far more than usual, since a few bytes
    can hold gigabytes.
    """
    head = b""
    for block in blocks:
        head += block
        if len(head) >= _LONGEST:
            break
        yield b""
    for magic, name in _UNREAD.items():
        if head.startswith(magic):
            raise SourceError(path, f"it is {name} data", "decompress it, or use gzip or zstd")
    form = next((form for magic, form in _FORMATS.items() if head.startswith(magic)), None)
    named = next((name for suffix, name in _SUFFIXES.items() if path.endswith(suffix)), None)
    if named is not None and form is None:
        remedy = "rename it if it is plain text, or write it again"
        raise SourceError(path, f"it is not {named} data", remedy)
    blocks = chain((head,), blocks)
    yield from blocks if form is None else _members(path, blocks, form)


def _members(path: str, blocks: Iterator[bytes], form: _Format) -> Iterator[bytes]:
    module = import_extra(form.module, f"{form.name} data, as in {path},", "daemon")
    decoder_of = partial(form.decoder, module)
    damaged: type[Exception] = getattr(module, form.error)
    decoder = decoder_of()
    for block in blocks:
        pieces, size = list[bytes](), 0
        for start in range(0, len(block), form.step):
            step = block[start : start + form.step]
            try:
                # Archives are often padded with zeros, which are not a new member.
                while rest := step.lstrip(b"\0") if decoder.eof else step:
                    if decoder.eof:
                        decoder = decoder_of()
                    pieces.append(decoder.decompress(rest))
                    size += len(pieces[-1])
                    step = decoder.unused_data
            except damaged as error:
                problem = f"its {form.name} data is damaged ({error})"
                raise SourceError(path, problem, "copy or write the file again") from error
            if size >= _STEP:
                yield b"".join(pieces)
                pieces, size = [], 0
        yield b"".join(pieces)
    if not decoder.eof:
        problem = f"its {form.name} data is truncated"
        raise SourceError(path, problem, "wait until it is fully written")
