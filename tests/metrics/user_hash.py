"""The hash of a user, byte by byte as its definition says."""

from __future__ import annotations

_ALL = 2**64 - 1
_SEED, _STEP = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93
_FINISH = (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53)


def user_hash(user: str | int) -> int:
    data = str(user).encode("utf-8", "surrogatepass")
    found = _SEED ^ (len(data) * _STEP & _ALL)
    for start in range(0, len(data), 8):
        word = int.from_bytes(data[start : start + 8], "little")
        found = (found ^ word) * _STEP & _ALL
        found ^= found >> 32
    for factor in _FINISH:
        found = (found ^ found >> 33) * factor & _ALL
    return found ^ found >> 33
