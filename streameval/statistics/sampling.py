"""Which items are kept where there are too many: those with a small hash, in whatever order."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from hashlib import blake2b

from streameval.events import Id, plain

HASHES = 2**64
"""So many hashes there are; items are kept whose hash lies below a limit, at first all of them."""


def hash_of(item: Id) -> int:
    """An item's place among all hashes; the same on every machine."""
    known = plain(item)
    text = f"{type(known).__name__}:{known}".encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big")


def limit_of(saved: str) -> int:
    """A limit as it was saved: in base 16.

    Raises:
        ValueError: it is none.
    """
    limit = int(saved, 16)
    if not 0 <= limit <= HASHES:
        message = f"no hash lies at {saved}"
        raise ValueError(message)
    return limit


def narrowed(limit: int, hashes: Sequence[int], most: int) -> int:
    """The largest limit, halved from the given one, below which at most so many hashes lie.

    Example:
        >>> narrowed(16, [1, 3, 9, 12], 2)
        8
    """
    in_order = sorted(hashes)
    while bisect_left(in_order, limit) > most:
        limit //= 2
    return limit
