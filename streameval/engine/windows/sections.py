"""Sections: the pieces of a state, and their bytes; a checkpoint writes those that changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import msgspec

from streameval.engine.windows.labels import Labels
from streameval.events.saved_states import damage_as_error, damaged


class Section(NamedTuple):
    """One piece of a state.

    Attributes:
        name: unique in the state: "labels/past", "labels/60/28333333", ...
        version: changes whenever the content does.
        content: copies it within milliseconds; returns a function that yields its canonical
            bytes in small pieces, on any thread.
    """

    name: str
    version: int
    content: Callable[[], Callable[[], Iterator[bytes]]]


_LENGTH: Final = 4
"""Bytes of the length of the label values, big-endian, with which a section of a table begins."""


def encode_table(labels: Sequence[Labels], table: Iterable[bytes]) -> Iterator[bytes]:
    """The bytes of a section in pieces: the label values of its cells in order, then the table.

    Example:
        >>> b"".join(encode_table([("a",), ("b",)], [b"table"])).hex(" ")
        '00 00 00 07 92 91 a1 61 91 a1 62 74 61 62 6c 65'
    """
    encoded = msgspec.msgpack.encode(labels)
    yield len(encoded).to_bytes(_LENGTH) + encoded
    yield from table


def decode_table(name: str, data: bytes, dimensions: int) -> tuple[list[Labels], bytes]:
    """The label values and the table of a section.

    `name`: of the section. `dimensions`: number of values of each cell.

    Raises:
        DamagedStateError: it is not the output of `encode_table`.
    """
    end = _LENGTH + int.from_bytes(data[:_LENGTH])
    with damage_as_error(name):
        labels = msgspec.msgpack.decode(data[_LENGTH:end], type=list[tuple[str, ...]])
    if any(len(label) != dimensions for label in labels):
        raise damaged(name, "it has another number of dimensions")
    if any(left >= right for left, right in pairwise(labels)):
        raise damaged(name, "its slices are not in order")
    return labels, data[end:]
