"""Simulated traffic as a source: users with tastes, two rankers, position-biased clicks.

Each variant (control, placebo, treatment) has a third of the users. Placebo behaves like control,
so a comparison of the two shows only chance.

Every list has 20 of 1,200 items. The probability that a rank has an item of a genre that the user
likes depends on the variant: control spreads liked items evenly, treatment shows as many but nearer
to the top. Items are drawn without replacement, popular items first. A user examines rank r with
probability 1/r, and clicks an examined item with a probability that depends on whether it is liked.
Clicks at different ranks are independent, so the true values have a closed form (`expected_ctr`,
`expected_hit_rate`).
"""

from __future__ import annotations

import hashlib
import itertools
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Literal, NamedTuple, TypeAlias, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from streameval.events.records import Assignment, Partition, PartitionOwner, RecordBatch
from streameval.sources.settings import SimulatorOptions
from streameval.sources.source import NO_END, UNHURRIED, Positions, SourceStatus

T = TypeVar("T")
SimulatedVariant: TypeAlias = Literal["control", "placebo", "treatment"]

VARIANTS: tuple[SimulatedVariant, ...] = ("control", "placebo", "treatment")
COUNTRIES = ("DE", "FR", "GB", "US")
CATALOG_SIZE = 1200
LENGTH = 20
BLOCK_RECORDS = 1000
SIMULATION_START = datetime(2026, 1, 1, tzinfo=UTC)
STEP = timedelta(milliseconds=10)

_TOPIC = "simulator"
_USERS = 2000
_GENRES = 12
_LIKED = 2 * CATALOG_SIZE // _GENRES
_CLICK_LIKED = 0.30
_CLICK_OTHER = 0.03
_ETA = 1.0
_EXAMINED: NDArray[np.float64] = np.arange(1, LENGTH + 1, dtype=np.float64) ** -_ETA
_ANYWHERE = np.full(LENGTH, 0.3)
_SHARE_LIKED = np.stack([_ANYWHERE, _ANYWHERE, np.linspace(0.6, 0.0, LENGTH)])
_RARITY = np.square(np.arange(CATALOG_SIZE, dtype=np.float32) // _GENRES + 3.0)
_NUMBER_BITS = 11  # enough for an item's number
_BEHIND = np.int64(1 << 62)  # above every key
_NAMES = np.array([f"item-{number}" for number in range(CATALOG_SIZE)], dtype=object)


class Record(msgspec.Struct, frozen=True, gc=False):
    """One event as written; `ts` becomes ISO-8601."""

    event_id: str
    ts: datetime
    user: str
    variant: str
    country: str
    recommendations: list[str]
    interactions: list[str]


class SimulatedAudience(NamedTuple):
    """Properties of each user, derived from a hash of the id."""

    hashes: NDArray[np.int64]
    variants: NDArray[np.int64]
    countries: NDArray[np.int64]
    dislikes: NDArray[np.bool_]


class SimulatedBlock(NamedTuple):
    """BLOCK consecutive records, and the hash of each record's user."""

    values: list[bytes]
    hashes: NDArray[np.int64]


def click_probabilities(variant: SimulatedVariant) -> NDArray[np.float64]:
    """The true probability of a click at each rank."""
    liked: NDArray[np.float64] = _SHARE_LIKED[VARIANTS.index(variant)]
    return _EXAMINED * (liked * _CLICK_LIKED + (1.0 - liked) * _CLICK_OTHER)


def expected_ctr(variant: SimulatedVariant, k: int = LENGTH) -> float:
    """The true share of clicks among the items shown at the first k ranks."""
    return float(click_probabilities(variant)[:k].mean())


def expected_hit_rate(variant: SimulatedVariant, k: int = LENGTH) -> float:
    """The true share of lists with a click at the first k ranks.

    Example:
        >>> round(expected_hit_rate("treatment", 10) - expected_hit_rate("control", 10), 3)
        0.128
    """
    return float(1.0 - np.prod(1.0 - click_probabilities(variant)[:k]))


def block(seed: int, number: int) -> SimulatedBlock:
    """Records number * BLOCK to (number + 1) * BLOCK - 1; deterministic."""
    audience = _audience()
    random = np.random.default_rng([seed, number])
    users = random.integers(_USERS, size=BLOCK_RECORDS)
    liked = random.random((BLOCK_RECORDS, LENGTH)) < _SHARE_LIKED[audience.variants[users]]
    items = _NAMES[_items(random, audience.dislikes[users], liked)]
    click = random.random((BLOCK_RECORDS, LENGTH)) < _EXAMINED * np.where(
        liked, _CLICK_LIKED, _CLICK_OTHER
    )
    encode = msgspec.json.Encoder().encode
    records = zip(
        range(number * BLOCK_RECORDS, (number + 1) * BLOCK_RECORDS),
        users.tolist(),
        items,
        click,
        strict=True,
    )
    values = [
        encode(_record(seed, index, user, recommended, seen))
        for index, user, recommended, seen in records
    ]
    return SimulatedBlock(values, audience.hashes[users])


def _items(
    random: np.random.Generator, dislikes: NDArray[np.bool_], liked: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Item numbers per record and rank: popularity-weighted draws of liked and other items."""
    keys = random.standard_exponential(dislikes.shape, dtype=np.float32) * _RARITY
    # The bits of non-negative floats sort like the floats; the item number breaks ties.
    ranked = (keys.view(np.int32).astype(np.int64) << _NUMBER_BITS) | np.arange(CATALOG_SIZE)
    ranked[dislikes] |= _BEHIND
    kinds = np.split(np.partition(ranked, (LENGTH, _LIKED, _LIKED + LENGTH), axis=1), [_LIKED], 1)
    order = np.hstack([np.sort(kind[:, :LENGTH], axis=1) for kind in kinds])
    nth_liked = np.cumsum(liked, axis=1) - 1
    nth_other = np.cumsum(~liked, axis=1) - 1 + LENGTH
    items = np.take_along_axis(order, np.where(liked, nth_liked, nth_other), axis=1)
    return items & ((1 << _NUMBER_BITS) - 1)


def _record(
    seed: int, index: int, user: int, items: NDArray[np.object_], click: NDArray[np.bool_]
) -> Record:
    audience = _audience()
    return Record(
        event_id=f"{seed}-{index}",
        ts=SIMULATION_START + index * STEP,
        user=f"user-{user}",
        variant=VARIANTS[audience.variants[user]],
        country=COUNTRIES[audience.countries[user]],
        recommendations=items.tolist(),
        interactions=items[click].tolist(),
    )


@cache
def _audience() -> SimulatedAudience:
    digests = (hashlib.blake2b(f"user-{n}".encode(), digest_size=7).digest() for n in range(_USERS))
    hashes = np.array(list(map(int.from_bytes, digests)), dtype=np.int64)
    first = hashes // 8 % _GENRES
    second = (first + 1 + hashes // 128 % (_GENRES - 1)) % _GENRES
    genres = np.arange(CATALOG_SIZE) % _GENRES
    likes = (genres == first[:, None]) | (genres == second[:, None])
    return SimulatedAudience(hashes // 65536, hashes % 3, hashes // 2 % len(COUNTRIES), ~likes)


def records(options: SimulatorOptions) -> Iterator[bytes]:
    """The simulated records in order, each a JSON object without a newline, without pacing."""
    blocks = (block(options.seed, number) for number in itertools.count())
    values = itertools.chain.from_iterable(record_block.values for record_block in blocks)
    return itertools.islice(values, options.events)


def pace_records(
    records: Iterable[T], per_second: float, wait: Callable[[float], object] = time.sleep
) -> Iterator[T]:
    """Yield each record when it is due."""
    started = time.monotonic()
    for number, record in enumerate(records):
        wait(max(0.0, started + number / per_second - time.monotonic()))
        yield record


class SimulatorSource:
    """Simulated traffic, partitioned by user.

    The offset of a record is its number in the traffic of all partitions, so offsets within a
    partition have gaps, and seeking costs nothing.
    """

    name = f"simulated traffic (its days begin on {SIMULATION_START:%Y-%m-%d})"
    cluster = _TOPIC
    budget = UNHURRIED

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
        self._owner: PartitionOwner = Positions()
        self._positions: Mapping[Partition, int] = {}
        self._joined = False
        self._first = self._next = self._end = 0
        self._opened_at = clock()
        self._block: tuple[int, SimulatedBlock] | None = None

    @property
    def status(self) -> SourceStatus:
        """The number of records due at the last poll; no ends without a pace and a limit.

        Records that became due since do not lag: they are made when they are polled.
        """
        options, ends = self._options, {}
        if options.events is not None or options.events_per_second is not None:
            ends = dict.fromkeys(self._partitions, self._end)
        return SourceStatus(joined=self._joined, finished=self._finished, ends=ends)

    @property
    def _finished(self) -> bool:
        """True if all of a limited number of records have been delivered."""
        return self._options.events is not None and self._next >= self._options.events

    def open(self, owner: PartitionOwner) -> None:
        """Start the pace; the first `poll` assigns the partitions."""
        self._owner, self._joined = owner, False
        self._opened_at = self._clock()
        self._first = self._next = 0
        self._end = self._due()

    def poll(self, seconds: float) -> Sequence[RecordBatch]:
        """Records that are due, at most 1,000; waits up to `seconds` for the next one.

        A partition without records among them advances by an empty batch.
        """
        if not self._joined:
            starts = self._owner.assigned(
                [self._assignment(partition) for partition in self._partitions]
            )
            self._positions = {partition: starts[partition] for partition in self._partitions}
            self._first = self._next = min(self._positions.values())
            self._joined = True
        pace = self._options.events_per_second
        if self._due() <= self._next and not self._finished and pace is not None:
            due_at = self._opened_at + (self._next + 1 - self._first) / pace
            self._sleep(min(seconds, max(0.0, due_at - self._clock())))
        self._end = self._due()
        start, stop = (
            self._next,
            min(self._end, self._next - self._next % BLOCK_RECORDS + BLOCK_RECORDS),
        )
        if stop <= start:
            return ()
        self._next = stop
        return [
            self._batch(partition, max(start, position), stop)
            for partition, position in self._positions.items()
            if position < stop
        ]

    def pause(self, partitions: Collection[Partition]) -> None:
        """Ignored: all partitions advance together."""

    def commit(self, positions: Mapping[Partition, int], *, wait: bool = True) -> str | None:
        """None: there is no problem to report."""

    def close(self) -> None:
        """Nothing to close."""

    def _assignment(self, partition: Partition) -> Assignment:
        """Equal identities have equal records, at any pace and number of records."""
        options = self._options
        return Assignment(
            partition=partition,
            identity=f"seed {options.seed} of {options.partitions} partitions",
            begin=0,
            end=NO_END if options.events is None else options.events,
            start=0,
            partitions=options.partitions,
        )

    def _due(self) -> int:
        limit = self._options.events
        pace = self._options.events_per_second
        if pace is None:
            return self._next + BLOCK_RECORDS if limit is None else limit
        due = self._first + int((self._clock() - self._opened_at) * pace)
        return due if limit is None else min(due, limit)

    def _batch(self, partition: Partition, start: int, stop: int) -> RecordBatch:
        number = start // BLOCK_RECORDS
        if self._block is None or self._block[0] != number:
            self._block = (number, block(self._options.seed, number))
        values, hashes = self._block[1]
        first = start % BLOCK_RECORDS
        of_partition = (
            hashes[first : first + stop - start] % len(self._partitions) == partition.number
        )
        within = (np.flatnonzero(of_partition) + first).tolist()
        return RecordBatch(
            partition=partition,
            values=[values[i] for i in within],
            offsets=[number * BLOCK_RECORDS + i for i in within],
            next_offset=stop,
        )
