"""The header of a record that stands for an invalid one, sent again after a fix."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from streameval.records import Partition

HEADER: Final = "streameval.replaces"


def replacing(partition: Partition, offset: int) -> tuple[str, bytes]:
    """The header that says which record this one stands for.

    Example:
        >>> replacing(Partition("events", 2), 41)
        ('streameval.replaces', b'events/2/41')
    """
    return HEADER, f"{partition.topic}/{partition.number}/{offset}".encode()


def replaced(partition: Partition, headers: Iterable[tuple[str, bytes | None]]) -> int | None:
    """The offset of the record that one with these headers stands for.

    None where it stands for none, or for one of another partition.

    Example:
        >>> replaced(Partition("events", 2), [("streameval.replaces", b"events/2/41")])
        41
        >>> replaced(Partition("events", 3), [("streameval.replaces", b"events/2/41")])
    """
    own = f"{partition.topic}/{partition.number}/".encode()
    for name, value in headers:
        if name == HEADER and value is not None and value.startswith(own):
            digits = value[len(own) :]
            # Only the digits 0-9: other bytes are nobody's offset.
            return int(digits) if digits.isdigit() else None
    return None
