"""Which items are kept where there are too many: those with a small hash, in whatever order."""

from __future__ import annotations

import math
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


CONFIDENCE = 0.999
"""That the truth lies within what `bounds_of` says."""

_WIDTH = math.log(2 * HASHES.bit_length() / (1.0 - CONFIDENCE))
"""Both ends may fail, at each of the limits that there may come to be: a union bound over them."""


def bounds_of(kept: int, share: float) -> tuple[float, float]:
    """How many items there are at least and at most, of which so many were kept by their hash.

    Chernoff's bound for a binomial count, at `CONFIDENCE`; the hash is taken to be random.

    Args:
        kept: items whose hash lies below the limit.
        share: of all hashes that lie below it.

    Example:
        >>> low, high = bounds_of(10_000, 0.25)
        >>> round(low), round(high)
        (38090, 41973)
        >>> bounds_of(7, 1.0)
        (7.0, 7.0)
    """
    if share >= 1.0:
        return float(kept), float(kept)
    low = _expected(kept, 0.0, float(kept))
    high = _expected(kept, 4.0 * (kept + _WIDTH), float(kept))
    return max(float(kept), low / share), high / share


def _expected(kept: int, outside: float, inside: float) -> float:
    """The expected count furthest from what was kept, towards outside, that explains it yet."""
    for _ in range(64):
        middle = (outside + inside) / 2.0
        unlikely = middle - kept + (kept * math.log(kept / middle) if kept else 0.0)
        outside, inside = (middle, inside) if unlikely > _WIDTH else (outside, middle)
    return outside


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
