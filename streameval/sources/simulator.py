"""Simulated traffic as a source: endless or limited, paced or as fast as it is asked for."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import numpy as np

from streameval.records import Assignment, Owner, Partition, RecordBatch
from streameval.sources.options import SimulatorOptions
from streameval.sources.owning import NO_END, Handover
from streameval.sources.traffic import BLOCK, Block, block

_TOPIC = "simulator"


def records(options: SimulatorOptions) -> Iterator[bytes]:
    """The simulated records in order, each a JSON object without a newline; never paced.

    Args:
        options: `seed` and `events`; None events means without end.
    """
    blocks = (block(options.seed, number) for number in itertools.count())
    values = itertools.chain.from_iterable(each.values for each in blocks)
    return itertools.islice(values, options.events)


class SimulatorSource:
    """Simulated traffic, spread over partitions by user.

    A record's offset is its number in the whole traffic, so offsets within a partition have
    gaps, and any of them can be gone to at no cost.

    Args:
        options: what to simulate.
        clock: seconds that only grow; paces the traffic.
        sleep: waits so many of these seconds.
    """

    name = _TOPIC
    trouble: str | None = None

    def __init__(
        self,
        options: SimulatorOptions,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._options = options
        self._clock = clock
        self._sleep = sleep
        self._partitions = [Partition(_TOPIC, number) for number in range(options.partitions)]
        self._handover = Handover()
        self._positions: Mapping[Partition, int] = {}
        self._first = self._next = 0
        self._opened_at = clock()
        self._block: tuple[int, Block] | None = None

    @property
    def cluster(self) -> str:
        """Always "simulator"."""
        return "simulator"

    @property
    def ended(self) -> Collection[Partition]:
        """None: all partitions end together."""
        return ()

    @property
    def finished(self) -> bool:
        """Whether all of a limited number of records have been handed out."""
        return self._options.events is not None and self._next >= self._options.events

    @property
    def joined(self) -> bool:
        """Whether the owner has taken the partitions."""
        return self._handover.done

    def open(self, owner: Owner) -> None:
        """Begin: the pace counts from here; the first `poll` hands the partitions over."""
        self._handover = Handover(owner)
        self._opened_at = self._clock()
        self._first = self._next = 0

    def poll(self, seconds: float) -> Sequence[RecordBatch]:
        """Records that are due, at most 1,000; waits up to `seconds` for the next one.

        A partition that none of them belongs to still moves on, by a batch without records.
        """
        if not self._handover.done:
            self._begin()
        if self._due() <= self._next and not self.finished:
            self._sleep(min(seconds, self._until_next()))
        start, stop = self._next, min(self._due(), self._next - self._next % BLOCK + BLOCK)
        if stop <= start:
            return ()
        self._next = stop
        return [
            self._batch(partition, max(start, position), stop)
            for partition, position in self._positions.items()
            if position < stop
        ]

    def commit(self, positions: Mapping[Partition, int]) -> str | None:
        """Nothing: nobody is to be told."""

    def end_offsets(self) -> Mapping[Partition, int]:
        """How many records are due by now; empty where there is neither a pace nor a limit."""
        if self._options.events is None and self._options.events_per_second is None:
            return {}
        return dict.fromkeys(self._partitions, self._due())

    def close(self) -> None:
        """Nothing to let go of."""

    def _begin(self) -> None:
        self._positions = self._handover.begin([self._assignment(p) for p in self._partitions])
        self._first = self._next = min(self._positions.values())

    def _assignment(self, partition: Partition) -> Assignment:
        """Equal identities have equal records, whatever their pace, and how many there are."""
        chosen = self._options
        return Assignment(
            partition=partition,
            identity=f"seed {chosen.seed} of {chosen.partitions} partitions",
            begin=0,
            end=NO_END if chosen.events is None else chosen.events,
            start=0,
            partitions=chosen.partitions,
        )

    def _due(self) -> int:
        limit = self._options.events
        pace = self._options.events_per_second
        if pace is None:
            return self._next + BLOCK if limit is None else limit
        due = self._first + int((self._clock() - self._opened_at) * pace)
        return due if limit is None else min(due, limit)

    def _until_next(self) -> float:
        pace = self._options.events_per_second
        if pace is None:
            return 0.0
        wanted = self._opened_at + (self._next + 1 - self._first) / pace
        return max(0.0, wanted - self._clock())

    def _batch(self, partition: Partition, start: int, stop: int) -> RecordBatch:
        number = start // BLOCK
        if self._block is None or self._block[0] != number:
            self._block = (number, block(self._options.seed, number))
        values, hashes = self._block[1]
        first = start % BLOCK
        mine = hashes[first : first + stop - start] % len(self._partitions) == partition.number
        within = (np.flatnonzero(mine) + first).tolist()
        return RecordBatch(
            partition=partition,
            values=[values[i] for i in within],
            offsets=[number * BLOCK + i for i in within],
            next_offset=stop,
        )
