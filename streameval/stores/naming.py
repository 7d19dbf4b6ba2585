"""Where the checkpoints of a place lie under a store: names of topics as safe names of folders."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

from streameval.durability.checkpoint import Place

CLAIM: Final = "store.json"
BLOBS: Final = "blobs"
ASIDE: Final = "aside"
SKIPS: Final = "skips"
TEMPORARY: Final = ".tmp"

_EMPTY: Final = "%"
_DOTTED: Final = frozenset({".", "..", CLAIM})
_CHECKPOINT: Final = re.compile(r"([0-9]{20})\.checkpoint")
_NUMBER: Final = re.compile(r"0|[1-9][0-9]*")


def folder_of(store: Path, place: Place) -> Path:
    """Where a place's checkpoints are: <store>/<topic>/<topic id>/<partition>."""
    return store / encoded(place.topic) / encoded(place.identity) / str(place.number)


def encoded(name: str) -> str:
    """A name as one part of a path; `decoded` gives it back.

    Example:
        >>> encoded("shop.events-2"), encoded("data/day 1.ndjson"), encoded("..")
        ('shop.events-2', 'data%2Fday%201.ndjson', '%2E%2E')
    """
    if name in _DOTTED:
        return name.replace(".", "%2E")
    return quote(name, safe="", errors="surrogateescape") or _EMPTY


def decoded(part: str) -> str | None:
    """The name that a part of a path stands for; None where it is none of ours.

    Example:
        >>> decoded("data%2Fday%201.ndjson"), decoded("lost+found")
        ('data/day 1.ndjson', None)
    """
    name = "" if part == _EMPTY else unquote(part, errors="surrogateescape")
    return name if encoded(name) == part else None


def number_of(part: str) -> int | None:
    """The partition that a folder's name says; None where it is none of ours."""
    return int(part) if _NUMBER.fullmatch(part) else None


def file_of(offset: int) -> str:
    """The name of the checkpoint of an offset; the highest sorts last.

    Example:
        >>> file_of(4711)
        '00000000000000004711.checkpoint'
    """
    return f"{offset:020d}.checkpoint"


def offset_of(name: str) -> int | None:
    """The offset that a file's name says; None where it is no checkpoint."""
    found = _CHECKPOINT.fullmatch(name)
    return int(found[1]) if found else None
