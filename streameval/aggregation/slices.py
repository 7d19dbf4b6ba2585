"""What the accumulator of one slice must be able to do; nothing else is known of it here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, Self, TypeVar

from streameval.events import Batch


class Mergeable(Protocol):
    """What counts the events of a slice; `streameval.accumulator.Accumulator` is one."""

    version: int
    """Another number after every change."""

    def update_many(self, batch: Batch) -> None:
        """Count many events."""

    def merge(self, other: Self) -> None:
        """Add what another one counted."""

    def copy(self) -> Self:
        """An independent one with the same content."""

    def dump(self) -> Iterator[bytes]:
        """Its content in canonical bytes, in pieces that are made quickly."""

    def adopt(self, data: bytes) -> frozenset[str]:
        """Take the place of the content by what `dump` gave, as far as it is asked for here.

        Returns:
            Names of the statistics that were not there, and begin now.

        Raises:
            DamagedStateError: it is not what `dump` gave.
        """


A = TypeVar("A", bound=Mergeable)
