"""Byte strings of unknown length, one after the other, so that they can be told apart again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from streameval.errors import DamagedStateError

_BLOCK: Final = 1 << 16
_SIZE: Final = 4


def framed(pieces: Iterable[bytes]) -> Iterator[bytes]:
    r"""One byte string, given in pieces of any size, as blocks that begin with their length.

    All blocks but the last are full, so the bytes do not depend on how it was cut into pieces.

    Example:
        >>> b"".join(framed([b"ab", b"c"]))
        b'\x00\x00\x00\x03abc'
    """
    waiting = bytearray()
    for piece in pieces:
        waiting += piece
        while len(waiting) >= _BLOCK:
            yield _BLOCK.to_bytes(_SIZE) + waiting[:_BLOCK]
            del waiting[:_BLOCK]
    yield len(waiting).to_bytes(_SIZE) + waiting


def unframed(name: str, data: bytes) -> Iterator[bytes]:
    """The byte strings of which `framed` made this, one after the other.

    Args:
        name: of the section, for the error.
        data: what was written.

    Raises:
        DamagedStateError: it ends in the middle of one.
    """
    at = 0
    while at < len(data):
        blocks: list[bytes] = []
        while not blocks or len(blocks[-1]) == _BLOCK:
            size = int.from_bytes(data[at : at + _SIZE])
            blocks.append(data[at + _SIZE : at + _SIZE + size])
            at += _SIZE + size
            if at > len(data) or size > _BLOCK:
                raise DamagedStateError(name, "it ends in the middle of a slice")
        yield b"".join(blocks)
