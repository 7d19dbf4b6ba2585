"""Label values: which have series of their own, which are folded into one, and when they were seen.

Which are folded depends on the set of values, not on their order, so that partitions, replicas and
files agree.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from operator import itemgetter
from types import MappingProxyType
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from streameval.decoding.values import MISSING_LABEL

Labels: TypeAlias = tuple[str, ...]
"""Values of the dimensions of one slice."""

LabelCapsState: TypeAlias = tuple[
    list[tuple[int | None, list[str]]], tuple[int | None, list[Labels]]
]
"""Edge and retained values of each dimension, then of the combinations."""

ActivityState: TypeAlias = list[tuple[Labels, int | None, int]]
"""Label values, latest event time and number of events of each slice."""

OTHER: Final = "__other__"
"""Label value of folded values: those above the cap, which are counted together."""

NOT_VALUES: Final = frozenset({OTHER, MISSING_LABEL})
"""Label values that stand for others or for none, so that they are exported and never judged."""

_CACHED: Final = 4_096
"""Combinations of raw values whose slice is cached; the cache is then cleared."""

_NO_TIME: Final = np.iinfo(np.int64).min

T = TypeVar("T", str, Labels)


class Cap(Generic[T]):
    """Retains the values with the smallest hashes; a value once folded stays folded.

    Attributes:
        retained: value -> hash.
        edge: smallest hash ever folded; None before the first.
    """

    __slots__ = ("edge", "retained", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.retained: dict[T, int] = {}
        self.edge: int | None = None

    def add(self, value: T) -> Sequence[T]:
        """Add a value that is not retained; returns the values that this folds, perhaps itself."""
        hashed = _hash(value)
        if self.edge is not None and hashed >= self.edge:
            return (value,)
        self.retained[value] = hashed
        return self._shrink() if len(self.retained) > self.size else ()

    def has_room(self, values: Collection[T]) -> bool:
        """True if these values, none of which is retained, fit without folding any."""
        return self.edge is None and len(self.retained) + len(values) <= self.size

    def merge(self, other: Cap[T]) -> None:
        """Merge another cap, as if this one had seen the values of both."""
        self.retained |= other.retained
        edges = [edge for edge in (self.edge, other.edge) if edge is not None]
        if edges:
            self._fold_from(min(edges))
        self._shrink()

    def copy(self) -> Cap[T]:
        """An independent copy."""
        copy: Cap[T] = Cap(self.size)
        copy.retained, copy.edge = self.retained.copy(), self.edge
        return copy

    def state(self) -> list[Any]:
        """The edge and the sorted retained values."""
        return [self.edge, sorted(self.retained)]

    def load(self, edge: int | None, values: Iterable[T]) -> None:
        """Replace the content with the output of `state`."""
        self.edge = edge
        self.retained = {value: _hash(value) for value in values}
        if edge is not None:
            self._fold_from(edge)
        self._shrink()

    def _shrink(self) -> Sequence[T]:
        """Fold values until `size` remain; returns them."""
        folded: list[T] = []
        while len(self.retained) > self.size:
            folded += self._fold_from(max(self.retained.values()))
        return folded

    def _fold_from(self, edge: int) -> list[T]:
        """Fold the values with hashes from `edge` on."""
        self.edge = edge
        folded = sorted(value for value, hashed in self.retained.items() if hashed >= edge)
        for value in folded:
            del self.retained[value]
        return folded


@lru_cache(maxsize=65_536)
def _hash(value: str | Labels) -> int:
    # Cached, because all partitions see the same values.
    return int.from_bytes(blake2b(msgspec.msgpack.encode(value), digest_size=8).digest())


LABEL_CAP: Final = 50
"""Values of a label with series of their own, unless configured."""

MAX_SERIES: Final = 1_000
"""Combinations of label values, unless configured."""

NO_CAP: Final = 2**62
"""A limit that no file reaches: files are finite, and offline all their values have series."""


class LabelCapOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Limits on the label values that get series of their own.

    Attributes:
        cap: most values of each dimension, besides named values and `__missing__`.
        named: for each dimension, values that are never folded.
        max_series: most combinations, besides those of named values only.
        preserved: dimensions whose values are all named; folded combinations keep these values.
    """

    cap: int = LABEL_CAP
    named: tuple[frozenset[str], ...] = ()
    max_series: int = MAX_SERIES
    preserved: frozenset[int] = frozenset()


class Admitted(NamedTuple):
    """The result of admitting a combination of label values.

    Attributes:
        key: its slice.
        renames: slices that it folds -> the slice that takes their content.
        stale: True if earlier combinations may belong to other slices now.
    """

    key: Labels
    renames: Mapping[Labels, Labels]
    stale: bool


class LabelCaps:
    """Caps of a family: combinations of label values with slices of their own; others are folded.

    The retained values of a dimension depend on their set only. The retained combinations may
    depend on the order of the log, since a combination is dropped when one of its values is folded;
    they never depend on batches.

    Attributes:
        values: retained values of each dimension, without those that are never folded.
        series: retained combinations, without those that are never folded.
    """

    def __init__(self, options: LabelCapOptions, dimensions: int) -> None:
        named = options.named or (frozenset(),) * dimensions
        self._options = options
        self._fixed = [values | NOT_VALUES for values in named]
        self._all = (OTHER,) * dimensions
        self.values: list[Cap[str]] = [Cap(options.cap) for _ in range(dimensions)]
        self.series: Cap[Labels] = Cap(options.max_series)

    @property
    def edges(self) -> tuple[int | None, ...]:
        """Change whenever `resolve` changes for a combination that was admitted."""
        return (*(cap.edge for cap in self.values), self.series.edge)

    @property
    def version(self) -> tuple[tuple[int | None, int], ...]:
        """Changes whenever the content does."""
        # While all edges stay, caps only grow.
        sizes = [(cap.edge, len(cap.retained)) for cap in self.values]
        return (*sizes, (self.series.edge, len(self.series.retained)))

    def admit(self, raw: Labels) -> Admitted:
        """Add a combination; values that this folds stay folded."""
        renames: dict[Labels, Labels] = {}
        stale = False
        for dimension, (value, fixed, cap) in enumerate(
            zip(raw, self._fixed, self.values, strict=True)
        ):
            if value not in cap.retained and value not in fixed:
                for folded in cap.add(value):
                    stale = stale or folded != value
                    self._fold_value(dimension, folded, renames)
        key = self._admit_combination(self._by_values(raw), renames)
        return Admitted(key, renames, stale or bool(renames))

    def admit_apart(self, raws: Collection[Labels]) -> bool:
        """Add combinations if all of them can be slices of their own; otherwise change nothing."""
        series = self.series
        new = {raw for raw in raws if raw not in series.retained and not self._never_folds(raw)}
        added: list[tuple[Cap[Any], set[Any]]] = [
            (cap, {raw[dimension] for raw in raws}.difference(fixed, cap.retained))
            for dimension, (fixed, cap) in enumerate(zip(self._fixed, self.values, strict=True))
        ]
        added.append((series, new))
        if not all(cap.has_room(values) for cap, values in added):
            return False
        for cap, values in added:
            cap.retained.update((value, _hash(value)) for value in values)
        return True

    def resolve(self, key: Labels) -> Labels:
        """The slice of a combination that was admitted here or in caps merged into these."""
        slice_labels = self._by_values(key)
        has_series = slice_labels in self.series.retained or self._never_folds(slice_labels)
        return slice_labels if has_series else self._overflow(slice_labels)

    def union(self, others: Iterable[LabelCaps]) -> LabelCaps:
        """The caps of several partitions together, in any order."""
        sources = (self, *others)
        together = LabelCaps(self._options, len(self._all))
        for source in sources:
            for cap, other in zip(together.values, source.values, strict=True):
                cap.merge(other)
        for source in sources:
            series: Cap[Labels] = Cap(self._options.max_series)
            resolved = map(together._by_values, source.series.retained)
            apart = (key for key in resolved if not together._never_folds(key))
            series.load(source.series.edge, apart)
            together.series.merge(series)
        return together

    def copy(self) -> LabelCaps:
        """An independent copy."""
        copy = LabelCaps(self._options, 0)
        copy._fixed, copy._all = self._fixed, self._all
        copy.values, copy.series = [cap.copy() for cap in self.values], self.series.copy()
        return copy

    def state(self) -> list[Any]:
        """The content as plain integers and strings; equal content gives equal state."""
        return [[cap.state() for cap in self.values], self.series.state()]

    def load(self, state: LabelCapsState) -> None:
        """Replace the content with the output of `state`.

        Raises:
            ValueError: it has another number of dimensions.
        """
        values, (edge, combinations) = state
        for cap, (dimension_edge, retained) in zip(self.values, values, strict=True):
            cap.load(dimension_edge, retained)
        if any(len(labels) != len(self._all) for labels in combinations):
            raise ValueError("a combination has another number of values")
        self.series.load(edge, combinations)

    def _by_values(self, raw: Labels) -> Labels:
        columns = zip(raw, self._fixed, self.values, strict=True)
        return tuple([v if v in cap.retained or v in fixed else OTHER for v, fixed, cap in columns])

    def _never_folds(self, key: Labels) -> bool:
        for value, fixed in zip(key, self._fixed, strict=True):
            if value == OTHER or value not in fixed:
                return key == self._overflow(key)
        return True

    def _overflow(self, key: Labels) -> Labels:
        """The slice of a combination above the cap."""
        preserved = self._options.preserved
        if not preserved:
            return self._all
        return tuple(
            [value if dimension in preserved else OTHER for dimension, value in enumerate(key)]
        )

    def _admit_combination(self, key: Labels, renames: dict[Labels, Labels]) -> Labels:
        if key in self.series.retained or self._never_folds(key):
            return key
        for folded in self.series.add(key):
            if folded != key:
                _add_rename(renames, folded, self._overflow(folded))
        return key if key in self.series.retained else self._overflow(key)

    def _fold_value(self, dimension: int, value: str, renames: dict[Labels, Labels]) -> None:
        for key in sorted(key for key in self.series.retained if key[dimension] == value):
            del self.series.retained[key]
            target = (*key[:dimension], OTHER, *key[dimension + 1 :])
            _add_rename(renames, key, self._admit_combination(target, renames))


def _add_rename(renames: dict[Labels, Labels], old: Labels, new: Labels) -> None:
    for source, target in renames.items():
        if target == old:
            renames[source] = new
    renames[old] = new


class Slices:
    """Numbers of label combinations: the cells of a family's tables.

    All partitions of a process share one, so that their tables add up without renaming. Numbers
    are never reused.
    """

    __slots__ = ("_lock", "_numbers", "labels")

    def __init__(self) -> None:
        self.labels: list[Labels] = []
        self._numbers: dict[Labels, int] = {}
        self._lock = threading.Lock()

    def number(self, labels: Labels) -> int:
        """The number of a combination; a new combination gets the next."""
        number = self._numbers.get(labels)
        if number is not None:
            return number
        # Views on other threads number the combinations that merged caps create.
        with self._lock:
            if labels not in self._numbers:
                self.labels.append(labels)
                self._numbers[labels] = len(self.labels) - 1
            return self._numbers[labels]

    def sorted(self, numbers: Iterable[int]) -> list[int]:
        """Numbers, sorted by their label values."""
        return sorted(numbers, key=self.labels.__getitem__)

    def by_number(self, renames: Mapping[Labels, Labels]) -> dict[int, int]:
        """The same renames by number, without those to the same slice."""
        return {self.number(old): self.number(new) for old, new in renames.items() if old != new}


_NO_RENAMES: Final[Mapping[int, int]] = MappingProxyType({})


class SliceAssigner:
    """Assigns events to slices, in the order of the log."""

    __slots__ = ("_caps", "_numbers", "_slices")

    def __init__(self, caps: LabelCaps, slices: Slices) -> None:
        self._caps = caps
        self._slices = slices
        self._numbers: dict[Labels, int] = {}

    def assign(self, raws: Sequence[Labels]) -> tuple[NDArray[np.int64], Mapping[int, int]]:
        """The slices of events with these label values, and the renames of those that they fold."""
        try:
            numbers = np.fromiter(map(self._numbers.__getitem__, raws), np.int64, len(raws))
        except KeyError:
            renames: dict[Labels, Labels] = {}
            numbers = np.array(self._admit_all(raws, renames), np.int64)
            by_number = self._slices.by_number(renames)
            return rename_slices(numbers, by_number), by_number
        return numbers, _NO_RENAMES

    def _admit_all(self, raws: Sequence[Labels], renames: dict[Labels, Labels]) -> list[int]:
        """The slices of events that may have new combinations."""
        numbers_of, numbers = self._numbers, list[int]()
        new = dict.fromkeys(raw for raw in raws if raw not in numbers_of)
        if len(numbers_of) + len(new) <= _CACHED and self._caps.admit_apart(new):
            numbers_of.update((raw, self._slices.number(raw)) for raw in new)
            return list(map(numbers_of.__getitem__, raws))
        # Event by event: a folded value changes the slices of earlier combinations.
        for raw in raws:
            if raw not in numbers_of:
                admitted = self._caps.admit(raw)
                if admitted.stale or len(numbers_of) >= _CACHED:
                    numbers_of.clear()
                for old, target in renames.items():
                    renames[old] = admitted.renames.get(target, target)
                renames |= admitted.renames
                numbers_of[raw] = self._slices.number(admitted.key)
            numbers.append(numbers_of[raw])
        return numbers


def labels_at(dimensions: Sequence[Labels], columns: Sequence[int]) -> Sequence[Labels]:
    """The values of some dimensions of each event.

    Example:
        >>> labels_at([("a", "b"), ("c", "d")], [1])
        [('b',), ('d',)]
    """
    if not dimensions or tuple(columns) == tuple(range(len(dimensions[0]))):
        return dimensions
    first = columns[0]
    # A slice makes a tuple of a single column as well.
    only = slice(first, first + 1)
    return list(map(itemgetter(*columns) if len(columns) > 1 else itemgetter(only), dimensions))


def rename_slices(numbers: NDArray[np.int64], renames: Mapping[int, int]) -> NDArray[np.int64]:
    """The numbers of slices after some were folded."""
    if not renames:
        return numbers
    table = np.arange(int(numbers.max(initial=0)) + 1)
    for old, new in renames.items():
        if old < len(table):
            table[old] = new
    return table[numbers]


class SliceActivity:
    """Events and latest event time of each slice; independent of the order of events."""

    __slots__ = ("_events", "_latest")

    def __init__(self) -> None:
        self._events = np.zeros(0, np.int64)
        self._latest = np.zeros(0, np.int64)

    def count(self, numbers: NDArray[np.int64], times: NDArray[np.int64] | None) -> None:
        """Count events, given their slices and times in microseconds."""
        self._grow(int(numbers.max(initial=-1)) + 1)
        np.add.at(self._events, numbers, 1)
        if times is not None:
            np.maximum.at(self._latest, numbers, times)

    def add_part(self, other: SliceActivity, start: int, stop: int) -> None:
        """Add the slices start, ..., stop - 1 of another one, as the slices from 0 on."""
        events, latest = other._events[start:stop], other._latest[start:stop]
        self._grow(events.size)
        self._events[: events.size] += events
        np.maximum(self._latest[: events.size], latest, out=self._latest[: events.size])

    def add(self, other: SliceActivity, renames: Mapping[int, int]) -> None:
        """Add another one, after moving its slices."""
        numbers = other.numbers
        goals = rename_slices(numbers, renames)
        self._grow(int(goals.max(initial=-1)) + 1)
        np.add.at(self._events, goals, other._events[numbers])
        np.maximum.at(self._latest, goals, other._latest[numbers])

    def rename(self, renames: Mapping[int, int]) -> None:
        """Merge folded slices into others."""
        moved = SliceActivity()
        moved.add(self, renames)
        self._events, self._latest = moved._events, moved._latest

    def copy(self) -> SliceActivity:
        """An independent copy."""
        copy = SliceActivity()
        copy._events, copy._latest = self._events.copy(), self._latest.copy()
        return copy

    @property
    def numbers(self) -> NDArray[np.int64]:
        """The slices that were seen, ascending."""
        return np.flatnonzero(self._events)

    @property
    def events(self) -> dict[int, int]:
        """Number of events of each slice."""
        return dict(zip(self.numbers.tolist(), self._events[self.numbers].tolist(), strict=True))

    @property
    def latest(self) -> dict[int, int | None]:
        """Latest event time of each slice, microseconds; None without event time."""
        times = self._latest[self.numbers].tolist()
        pairs = zip(self.numbers.tolist(), times, strict=True)
        return {number: None if time == _NO_TIME else time for number, time in pairs}

    def state(self, slices: Slices) -> list[Any]:
        """Plain integers and strings, sorted by label values."""
        latest, events = self.latest, self.events
        return [[slices.labels[at], latest[at], events[at]] for at in slices.sorted(events)]

    def load(self, state: ActivityState, slices: Slices) -> None:
        """Replace the content with the output of `state`."""
        activity = {slices.number(labels): (latest, events) for labels, latest, events in state}
        self._events = self._latest = np.zeros(0, np.int64)
        self._grow(max(activity, default=-1) + 1)
        for number, (latest, events) in activity.items():
            self._events[number] = events
            self._latest[number] = _NO_TIME if latest is None else latest

    def _grow(self, size: int) -> None:
        more = size - self._events.size
        if more > 0:
            self._events = np.concatenate((self._events, np.zeros(more, np.int64)))
            self._latest = np.concatenate((self._latest, np.full(more, _NO_TIME)))


def segment_of(dimensions: Sequence[str], labels: Sequence[str]) -> str | None:
    """The dimension that is not a label; None if all are."""
    return next((name for name in dimensions if name not in labels), None)
