"""One accumulator for each combination of label values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, Protocol, Self, TypeVar

from streameval.events import Batch


class Mergeable(Protocol):
    """What a slice must be able to do; `streameval.accumulator.Accumulator` is one."""

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


class Slices(Generic[A]):
    """Accumulators by label values; knows no metric.

    Args:
        new: makes an empty accumulator.
    """

    __slots__ = ("_by_labels", "new")

    def __init__(self, new: Callable[[], A]) -> None:
        self.new = new
        self._by_labels: dict[tuple[str, ...], A] = {}

    def update(self, labels: tuple[str, ...], batch: Batch) -> None:
        """Count events that have these label values; the slice appears if it is new."""
        found = self._by_labels.get(labels)
        if found is None:
            found = self._by_labels[labels] = self.new()
        found.update_many(batch)

    def get(self, labels: tuple[str, ...]) -> A | None:
        """The accumulator of these label values; None where no event had them."""
        return self._by_labels.get(labels)

    def items(self) -> list[tuple[tuple[str, ...], A]]:
        """All slices, sorted by their label values."""
        return sorted(self._by_labels.items(), key=_labels)

    def merged(self, others: Iterable[Slices[A]]) -> Slices[A]:
        """The slices of all of them together, independent of each."""
        together = Slices(self.new)
        for slices in (self, *others):
            for labels, accumulator in slices.items():
                together._add(labels, accumulator)
        return together

    def _add(self, labels: tuple[str, ...], accumulator: A) -> None:
        found = self._by_labels.get(labels)
        if found is None:
            self._by_labels[labels] = accumulator.copy()
        else:
            found.merge(accumulator)

    def __len__(self) -> int:
        return len(self._by_labels)

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        return iter(sorted(self._by_labels))


def _labels(item: tuple[tuple[str, ...], A]) -> tuple[str, ...]:
    return item[0]
