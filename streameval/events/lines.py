"""Lines of a block of bytes, none of which is an object of its own until someone asks for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from streameval.events.batch import IntArray


class LineBlock(Sequence[bytes]):
    r"""Lines, each with its bounds in a block.

    Attributes:
        block: the bytes; there may be others before, between and behind the lines.
        starts: where each line starts.
        stops: where each line stops, before its newline.

    Example:
        >>> import numpy as np
        >>> lines = LineBlock(b"a\n\nbc\n", np.array([0, 3]), np.array([1, 5]))
        >>> lines[1], [*lines], [*lines[:1]], [*lines.take(np.array([1, 0]))]
        (b'bc', [b'a', b'bc'], [b'a'], [b'bc', b'a'])
    """

    __slots__ = ("block", "starts", "stops")

    def __init__(self, block: bytes, starts: IntArray, stops: IntArray) -> None:
        self.block, self.starts, self.stops = block, starts, stops

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, row: Any) -> Any:
        if isinstance(row, slice):
            return self.take(row)
        return self.block[self.starts[row] : self.stops[row]]

    def __iter__(self) -> Iterator[bytes]:
        block = self.block
        bounds = zip(self.starts.tolist(), self.stops.tolist(), strict=True)
        return (block[start:stop] for start, stop in bounds)

    def take(self, rows: IntArray | slice) -> LineBlock:
        """These lines, in this order."""
        return LineBlock(self.block, self.starts[rows], self.stops[rows])
