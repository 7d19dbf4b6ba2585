"""Parquet files, and text files with a line of column names, as Arrow tables."""

from __future__ import annotations

import os
from collections.abc import Iterator
from csv import reader
from pathlib import PurePath
from typing import Any

from streameval.errors import SourceError
from streameval.sources.compression import decompressed
from streameval.sources.opening import opened, size, unreadable
from streameval.tables.arrow import arrow

_BLOCK = 1 << 20
_PARQUET = b"PAR1"
_DELIMITERS = "\t,;"
_SUFFIXES = frozenset({".parquet", ".pq", ".csv", ".tsv"})
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def is_table(path: str) -> bool:
    """Whether a file's name says that it holds a table, as parquet or CSV.

    Example:
        >>> is_table("events.parquet"), is_table("events.csv.gz"), is_table("events.ndjson")
        (True, True, False)
    """
    name = PurePath(path)
    return (name.with_suffix("") if name.suffix in {".gz", ".zst"} else name).suffix in _SUFFIXES


def table_of(path: str) -> Any:
    """The table in a file; columns of a text file are all of strings.

    Args:
        path: parquet, or text: its first line names the columns, separated by tabs, commas or
            semicolons; RecBole's atomic files too. Plain, .gz or .zst; "-" is standard input.

    Raises:
        SourceError: it cannot be read.
        MissingExtraError: pyarrow is not installed.
    """
    arrow()
    found = content(path)
    if not found:
        raise SourceError(path, "the file is empty", "give one whose first line names the columns")
    try:
        return _parquet(found) if found.startswith(_PARQUET) else _text(found)
    except (arrow().ArrowException, OSError) as error:
        problem = " ".join(str(error).split())
        remedy = "give a parquet file, or CSV in UTF-8 with equally many fields in every line"
        raise SourceError(path, problem, remedy) from error


def content(path: str) -> bytes:
    """All bytes of a file, without their compression.

    Raises:
        SourceError: it is not there, not readable, or its compressed data is damaged.
    """
    size(path)
    descriptor = opened(path)
    try:
        return b"".join(decompressed(path, _blocks(descriptor)))
    except OSError as error:
        raise unreadable(path, error) from error
    finally:
        if descriptor:
            os.close(descriptor)


def _blocks(descriptor: int) -> Iterator[bytes]:
    while block := os.read(descriptor, _BLOCK):
        yield block


def _parquet(found: bytes) -> Any:
    return arrow("parquet").read_table(arrow().BufferReader(found))


def _text(found: bytes) -> Any:
    csv, found = arrow("csv"), found.removeprefix(_BYTE_ORDER_MARK)
    header = found.partition(b"\n")[0].decode("utf-8", "replace")
    delimiter = next((each for each in _DELIMITERS if each in header), ",")
    names = next(reader([header], delimiter=delimiter), [])
    parsed = csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    whole = csv.ReadOptions(block_size=max(_BLOCK, len(found)))
    text = csv.ConvertOptions(column_types=dict.fromkeys(names, arrow().large_string()))
    return csv.read_csv(arrow().BufferReader(found), whole, parsed, text)
