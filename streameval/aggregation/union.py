"""The slices of several partitions as one, merged again only where something changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Generic, NamedTuple

from streameval.aggregation.slices import A, Slices


class _Merge(NamedTuple, Generic[A]):
    parts: Sequence[A]
    versions: Sequence[int]
    whole: A

    def holds(self, parts: Sequence[A]) -> bool:
        """Whether these are the parts it was made of, unchanged since."""
        return [id(part) for part in parts] == [id(part) for part in self.parts] and [
            part.version for part in parts
        ] == self.versions


class Union(Generic[A]):
    """Merges slices for reading; a slice whose parts are unchanged is not merged again."""

    def __init__(self) -> None:
        self._merges: dict[tuple[str, ...], _Merge[A]] = {}

    def of(self, partitions: Iterable[Slices[A]]) -> list[tuple[tuple[str, ...], A]]:
        """The slices of all partitions together, sorted by their label values.

        The accumulators are for reading only: one that has a single part is that part itself.
        While nothing changed, the very same objects are returned.
        """
        parts: dict[tuple[str, ...], list[A]] = {}
        for slices in partitions:
            for labels, accumulator in slices.items():
                parts.setdefault(labels, []).append(accumulator)
        self._merges = {labels: self._merge(labels, found) for labels, found in parts.items()}
        return [(labels, self._merges[labels].whole) for labels in sorted(parts)]

    def _merge(self, labels: tuple[str, ...], parts: list[A]) -> _Merge[A]:
        known = self._merges.get(labels)
        if known is not None and known.holds(parts):
            return known
        versions = [part.version for part in parts]
        if len(parts) == 1:
            return _Merge(parts, versions, parts[0])
        whole = parts[0].copy()
        for part in parts[1:]:
            whole.merge(part)
        return _Merge(parts, versions, whole)
