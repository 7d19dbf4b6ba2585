"""Bytes of a file without their compression: gzip and zstd are known by their first bytes."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Protocol

import zstandard

from streameval.errors import SourceError


class _Decoder(Protocol):
    """What zlib and zstandard have in common: one compressed stream, fed piece by piece."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, /) -> bytes: ...


def _gzip() -> _Decoder:
    return zlib.decompressobj(wbits=31)


def _zstd() -> _Decoder:
    return zstandard.ZstdDecompressor().decompressobj()


_FORMATS: dict[bytes, tuple[str, Callable[[], _Decoder]]] = {
    b"\x1f\x8b": ("gzip", _gzip),
    b"\x28\xb5\x2f\xfd": ("zstd", _zstd),
}
_SUFFIXES = {".gz": "gzip", ".zst": "zstd"}
_LONGEST = max(map(len, _FORMATS))


def decompressed(path: str, blocks: Iterator[bytes]) -> Iterator[bytes]:
    """The content behind blocks of a file, whether plain, gzip or zstd, members joined.

    One block comes out for each that goes in, empty where nothing can be said yet; so whoever
    feeds it from a pipe never waits for more than one read.

    Args:
        path: names the file in errors; its suffix must not contradict its content.
        blocks: the file's bytes in order.

    Raises:
        SourceError: the compressed data is damaged, ends too early, or is not there.
    """
    head = b""
    for block in blocks:
        head += block
        if len(head) >= _LONGEST:
            break
        yield b""
    found = next((known for magic, known in _FORMATS.items() if head.startswith(magic)), None)
    _refuse_misnamed(path, found[0] if found else None)
    yield from _chained(head, blocks) if found is None else _members(path, head, blocks, *found)


def _refuse_misnamed(path: str, found: str | None) -> None:
    named = next((name for suffix, name in _SUFFIXES.items() if path.endswith(suffix)), None)
    if named is not None and found is None:
        raise SourceError(
            path, f"does not begin like {named} data", "rename it if it is plain text, or renew it"
        )


def _chained(head: bytes, blocks: Iterator[bytes]) -> Iterator[bytes]:
    yield head
    yield from blocks


def _members(
    path: str, head: bytes, blocks: Iterator[bytes], name: str, decoder_of: Callable[[], _Decoder]
) -> Iterator[bytes]:
    decoder = decoder_of()
    for block in _chained(head, blocks):
        try:
            decoder, plain = _fed(decoder, block, decoder_of)
        except (zlib.error, zstandard.ZstdError) as error:
            problem = f"its {name} data is damaged ({error})"
            raise SourceError(path, problem, "fetch or write the file again") from error
        yield plain
    if not decoder.eof:
        raise SourceError(path, f"its {name} data ends too early", "wait until it is fully written")


def _fed(
    decoder: _Decoder, block: bytes, decoder_of: Callable[[], _Decoder]
) -> tuple[_Decoder, bytes]:
    """The decoder to go on with after the block, and what the block held."""
    pieces = []
    # Archives are often padded with zeros, which begin no member.
    while rest := block.lstrip(b"\0") if decoder.eof else block:
        if decoder.eof:
            decoder = decoder_of()
        pieces.append(decoder.decompress(rest))
        block = decoder.unused_data
    return decoder, b"".join(pieces)
