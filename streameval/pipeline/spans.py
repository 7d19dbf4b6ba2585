"""Events counted by spans of event time, one span after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Generic, TypeAlias

import numpy as np

from streameval.aggregation.folding import Folding
from streameval.aggregation.slices import A
from streameval.aggregation.spec import FamilySpec
from streameval.pipeline.decode import Decoded

Labels: TypeAlias = tuple[str, ...]
Slices: TypeAlias = list[dict[Labels, A]]
"""For each family, accumulators by label values."""


class Spans(Generic[A]):
    """Spans of one length, aligned to the epoch; every event is counted in exactly one.

    Nothing is late: a span is the events in it, in whatever order they came.

    Args:
        families: what is kept of each span; windows do not matter.
        every: length of a span, microseconds.
    """

    def __init__(self, families: Sequence[FamilySpec[A]], every: int) -> None:
        self._families = families
        self._every = every
        self._spans: dict[int, Slices[A]] = {}

    def update(self, decoded: Decoded) -> None:
        """Count events; those without time in no span."""
        for (start, values), rows in self._groups(decoded).items():
            batch = decoded.batch.take(rows)
            span = self._spans.setdefault(start, [{} for _ in self._families])
            for spec, slices in zip(self._families, span, strict=True):
                labels = tuple(values[column] for column in spec.columns)
                if labels not in slices:
                    slices[labels] = spec.new()
                slices[labels].update_many(batch)

    def items(self) -> Iterator[tuple[int, Slices[A]]]:
        """Start of each span that has an event, and what happened in it; in the order of time.

        Label values above the caps of a family are folded alike in all spans.
        """
        foldings = [self._folding(place) for place in range(len(self._families))]
        for start in sorted(self._spans):
            families = zip(foldings, self._spans[start], strict=True)
            yield start, [_folded(folding, slices) for folding, slices in families]

    def _groups(self, decoded: Decoded) -> dict[tuple[int, Labels], list[int]]:
        """Rows by start of the span and values of all dimensions."""
        found: dict[tuple[int, Labels], list[int]] = {}
        if decoded.times is not None:
            starts = (np.floor_divide(decoded.times, self._every) * self._every).tolist()
            values = decoded.dimensions or [()] * len(starts)
            for row, key in enumerate(zip(starts, values, strict=True)):
                found.setdefault(key, []).append(row)
        return found

    def _folding(self, place: int) -> Folding:
        spec = self._families[place]
        folding = Folding(spec.folding, len(spec.columns))
        for labels in sorted({each for span in self._spans.values() for each in span[place]}):
            folding.admit(labels)
        return folding


def _folded(folding: Folding, slices: Mapping[Labels, A]) -> dict[Labels, A]:
    """Sorted by label values; the accumulators are for reading only."""
    parts: dict[Labels, list[A]] = {}
    for labels in sorted(slices):
        parts.setdefault(folding.settled(labels), []).append(slices[labels])
    return {labels: _merged(parts[labels]) for labels in sorted(parts)}


def _merged(parts: Sequence[A]) -> A:
    if len(parts) == 1:
        return parts[0]
    whole = parts[0].copy()
    for part in parts[1:]:
        whole.merge(part)
    return whole
