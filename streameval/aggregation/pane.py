"""One accumulator for each combination of label values, of one span of time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Generic

import msgspec

from streameval.aggregation.cap import Labels
from streameval.aggregation.framing import framed, unframed
from streameval.aggregation.section import next_version
from streameval.aggregation.slices import A
from streameval.errors import DamagedStateError
from streameval.events import Batch


class Pane(Generic[A]):
    """Accumulators by label values.

    Attributes:
        slices: the accumulators; for reading only.
        version: another number after every change.

    Args:
        new: makes an empty accumulator.
    """

    __slots__ = ("_new", "slices", "version")

    def __init__(self, new: Callable[[], A]) -> None:
        self._new = new
        self.slices: dict[Labels, A] = {}
        self.version = next_version()

    def count(self, labels: Labels, batch: Batch) -> None:
        """Count events that have these label values; the slice appears if it is new."""
        found = self.slices.get(labels)
        if found is None:
            found = self.slices[labels] = self._new()
        found.update_many(batch)
        self.version = next_version()

    def absorb(self, other: Pane[A]) -> None:
        """Take over what another one holds, which must not be used any more."""
        for labels, accumulator in other.slices.items():
            self._add(labels, accumulator)
        self.version = next_version()

    def move(self, moves: Mapping[Labels, Labels]) -> None:
        """Slices that folded become part of others."""
        for labels in sorted(self.slices.keys() & moves.keys()):
            self._add(moves[labels], self.slices.pop(labels))
            self.version = next_version()

    def items(self) -> list[tuple[Labels, A]]:
        """All slices, sorted by their label values."""
        return [(labels, self.slices[labels]) for labels in sorted(self.slices)]

    def content(self) -> Callable[[], Iterator[bytes]]:
        """Copies what it holds; what is returned yields the canonical bytes of that."""
        copies = [(labels, accumulator.copy()) for labels, accumulator in self.items()]

        def dumped() -> Iterator[bytes]:
            for labels, accumulator in copies:
                yield from framed([msgspec.msgpack.encode(labels)])
                yield from framed(accumulator.dump())

        return dumped

    def adopt(self, name: str, data: bytes, dimensions: int) -> frozenset[str]:
        """Take the place of the content by what `content` gave.

        Args:
            name: of the section, for the error.
            data: its bytes.
            dimensions: how many values a combination has.

        Returns:
            Names of statistics that were not kept then.

        Raises:
            DamagedStateError: it is not what that gave.
        """
        frames = list(unframed(name, data))
        if len(frames) % 2:
            raise DamagedStateError(name, "the last slice is cut off")
        new: set[str] = set()
        before: Labels | None = None
        for head, body in zip(frames[::2], frames[1::2], strict=True):
            labels = _labels(name, head, dimensions)
            if before is not None and labels <= before:
                raise DamagedStateError(name, f"slice {labels} does not come in its order")
            before = labels
            accumulator = self.slices[labels] = self._new()
            new |= accumulator.adopt(body)
        self.version = next_version()
        return frozenset(new)

    def _add(self, labels: Labels, accumulator: A) -> None:
        found = self.slices.get(labels)
        if found is None:
            self.slices[labels] = accumulator
        else:
            found.merge(accumulator)


def _labels(name: str, head: bytes, dimensions: int) -> Labels:
    try:
        labels = msgspec.msgpack.decode(head, type=tuple[str, ...])
    except msgspec.MsgspecError as error:
        raise DamagedStateError(name, f"label values that are none: {error}") from error
    if len(labels) != dimensions:
        raise DamagedStateError(name, f"{len(labels)} label values instead of {dimensions}")
    return labels
