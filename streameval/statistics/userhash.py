"""Users as 64-bit numbers: the frozen hash that groups and samples of users are made by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from streameval.events import Id

HashArray: TypeAlias = NDArray[np.uint64]
IntArray: TypeAlias = NDArray[np.int64]

_SEED: Final = np.uint64(0x9E3779B97F4A7C15)
_STEP: Final = np.uint64(0xD6E8FEB86659FD93)
_FINISH: Final = (np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53))
_HALF: Final = np.uint64(32)
_SHIFT: Final = np.uint64(33)
_WORD: Final = 8


def user_hashes(users: Sequence[Id]) -> HashArray:
    """One hash for each user, shape (users,); the same on every machine and in every release.

    It is over the UTF-8 bytes of the id; an integer is hashed as its decimal text, so that 7 and
    "7" are the same user whichever decoder read the id. The bytes are read as little-endian words
    of 64 bits, the last one filled up with zeros; each is mixed in by a multiplication and a shift,
    and the finaliser of MurmurHash3 (Appleby, 2011) comes last.

    Example:
        >>> [hex(each) for each in user_hashes(["7", 7]).tolist()]
        ['0x55af9f64b44494bc', '0x55af9f64b44494bc']
    """
    data, starts, lengths = _bytes_of(users)
    words = np.ndarray(len(data) - _WORD + 1, "<u8", data, strides=(1,))
    hashes = _SEED ^ (lengths.astype(np.uint64) * _STEP)
    shortest = int(lengths.min(initial=0 if not lengths.size else lengths[0]))
    for place in range(0, int(lengths.max(initial=0)), _WORD):
        rows = slice(None) if shortest > place else np.flatnonzero(lengths > place)
        mixed = words[starts[rows] + place]
        if shortest < place + _WORD:
            mixed &= _MASKS[np.minimum(lengths[rows] - place, _WORD)]
        mixed ^= hashes[rows]
        mixed *= _STEP
        hashes[rows] = mixed ^ (mixed >> _HALF)
    for factor in _FINISH:
        hashes ^= hashes >> _SHIFT
        hashes *= factor
    hashes ^= hashes >> _SHIFT
    return hashes


def _bytes_of(users: Sequence[Id]) -> tuple[bytes, IntArray, IntArray]:
    """All ids in UTF-8 with zeros behind them; where each begins, and its length in bytes."""
    try:
        joined = "\0".join(users)  # type: ignore[arg-type]  # raises for integers
    except TypeError:
        return _bytes_of(list(map(str, users)))
    data = joined.encode("utf-8", "surrogatepass") + bytes(_WORD)
    ends = np.flatnonzero(np.frombuffer(data, np.uint8, len(data) - _WORD + 1) == 0)
    if ends.size != len(users):
        # An id has a zero of its own, so that lengths must be counted one by one.
        parts = [str(user).encode("utf-8", "surrogatepass") for user in users]
        ends = np.cumsum([len(part) + 1 for part in parts], dtype=np.int64) - 1
    starts = np.concatenate(([0], ends[:-1] + 1)) if ends.size else ends
    return data, starts, ends - starts


_MASKS: Final = np.array([(1 << (8 * size)) - 1 for size in range(_WORD + 1)], np.uint64)
