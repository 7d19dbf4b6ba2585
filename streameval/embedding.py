"""Pictures of accumulators that live in somebody's own program."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from streameval.accumulator import Accumulator
from streameval.accumulator.shared import SharedAccumulator, share
from streameval.errors import NotShownError
from streameval.pipeline.snapshot import Health, Series, SeriesFamily, Snapshot

Accumulators: TypeAlias = Accumulator | Mapping[Any, Accumulator]
"""One, or by label values: a text, or a tuple of texts where there are several labels."""

_LOG: Final = logging.getLogger(__name__)


class _Read(NamedTuple):
    accumulator: Accumulator
    version: int
    lists: int
    series: tuple[Series, ...]
    advice: str | None


class Pictures:
    """Takes snapshots of accumulators while their owner goes on counting.

    The accumulators are made safe for threads. Each that changed is copied under its lock and read
    from the copy, so that counting waits for the copy only.

    Args:
        accumulators: one, or a mapping, which may get more and lose some at any time.
        labels: names of the labels; none for a single accumulator.
        source: what is counted, for a person.

    Raises:
        NotShownError: labels and keys do not fit each other.
    """

    def __init__(
        self, accumulators: Accumulators, labels: str | Sequence[str], source: str
    ) -> None:
        self._labels = (labels,) if isinstance(labels, str) else tuple(labels)
        self._accumulators = accumulators
        self._source = source
        self._started_at = time.time()
        self._lock = threading.Lock()
        self._reads: dict[tuple[str, ...], _Read] = {}
        self._advised = False
        self._version = 0
        for _, accumulator in self._items():
            share(accumulator)

    def take(self) -> Snapshot:
        """All readings now; may be called from several threads."""
        with self._lock:
            self._read_all()
            self._version += 1
            return Snapshot(
                version=self._version,
                taken_at=time.time(),
                started_at=self._started_at,
                source=self._source,
                families=(SeriesFamily("labels", None, self._labels),),
                series=tuple(self._series()),
                health=self._health(),
            )

    def _read_all(self) -> None:
        before, self._reads = self._reads, {}
        for labels, accumulator in self._items():
            if not isinstance(accumulator, SharedAccumulator):
                # Its owner may be counting in it without the lock just now, for the last time.
                share(accumulator)
                continue
            known = before.get(labels)
            if (
                known is None
                or known.accumulator is not accumulator
                or known.version != accumulator.version
            ):
                known = _read(labels, accumulator)
            self._reads[labels] = known

    def _items(self) -> list[tuple[tuple[str, ...], Accumulator]]:
        if isinstance(self._accumulators, Accumulator):
            given: Mapping[Any, Accumulator] = {(): self._accumulators}
        else:
            given = self._accumulators
        # As a list at once: the owner may add one meanwhile.
        found = [(_values(key, self._labels), each) for key, each in list(given.items())]
        return sorted(found, key=lambda item: item[0])

    def _series(self) -> Iterator[Series]:
        """By metric, then by label values."""
        found: dict[str, list[Series]] = {}
        for read in self._reads.values():
            for entry in read.series:
                found.setdefault(entry.metric.text, []).append(entry)
        for of_metric in found.values():
            yield from of_metric

    def _health(self) -> Health:
        lists = sum(read.lists for read in self._reads.values())
        advice = next((read.advice for read in self._reads.values() if read.advice), None)
        if advice is not None and not self._advised:
            # Once: it says a number that grows, and the page shows it for as long as it is so.
            self._advised = True
            _LOG.warning("%s", advice)
        return Health(consumed=lists, valid=lists, trouble=advice)


def _read(labels: tuple[str, ...], accumulator: Accumulator) -> _Read:
    # The version first: what is counted between the two is read again next time, and not lost.
    version = accumulator.version
    copy = accumulator.copy()
    series = tuple(Series(metric, labels, copy.read(metric.text)) for metric in copy.metrics)
    return _Read(accumulator, version, copy.lists, series, copy.advice())


def _values(key: object, labels: tuple[str, ...]) -> tuple[str, ...]:
    values = key if isinstance(key, tuple) else (key,)
    if len(values) == len(labels) and all(isinstance(each, str) for each in values):
        return values
    names = ", ".join(labels) or "none"
    found = f"the key {key!r} under the labels {names}"
    remedy = (
        "give labels=, and as a key one text for each label, in a tuple where there are several"
    )
    raise NotShownError(found, remedy)
