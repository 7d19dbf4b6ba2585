"""Simulated lists and interactions as two logs with late, duplicate, disordered, invalid records.

Lists and clicks are those of `simulator.records` with the same seed, spread over more time so that
windows have an effect. Times are milliseconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from sys import intern
from typing import Final, NamedTuple, TypeAlias, TypeVar

import msgspec
import numpy as np

from streameval.sources.settings import SimulatorOptions
from streameval.sources.simulator import CATALOG_SIZE, LENGTH, SIMULATION_START, Record, records

SIMULATED_WINDOW: Final = 30 * 60_000
"""Longest time after a list for an interaction to count for it."""

LATENESS: Final = 5 * 60_000
"""A record that is this much older than the newest one before it in its log is late."""

GAINS: Final[Mapping[str, float]] = {"click": 1.0, "cart": 3.0, "purchase": 10.0}
IGNORED_TYPE: Final = "view"

_SEED: Final = 0x73747265616D73
"""Seed that differs from all block numbers, which seed the lists."""

_BEGIN: Final = int(SIMULATION_START.timestamp() * 1000)
_NAMES: Final = {"control": "a", "placebo": "a", "treatment": "b"}
_TO_CART, _TO_PURCHASE = 0.4, 0.5
_CLICK, _CART, _VIEW, _RETRY, _LATER = 60_000, 120_000, 10_000, 30_000, 300_000
_INTERVAL: Final = 4_000
"""Time between lists."""

_DELAY: Final = 1_500_000
"""Longest time from a list to an interaction with it; within the window."""

_DISORDER: Final = 60_000
"""Longest delay of writing a record; within the lateness."""

_VIEWS: Final = 0.5
"""Mean number of views per list; an ignored type."""

_DUPLICATE, _LATE, _INVALID = 0.02, 0.01, 0.005
"""Shares of records written twice, of late records, and of additional invalid records."""

_ORPHANS, _OUTSIDE = 0.02, 0.02
"""Shares of additional interactions without a list, and with an item that is not in the list."""


class Impression(msgspec.Struct, frozen=True, gc=False):
    """A list as written when it is shown."""

    ts: int
    request_id: str
    user: str
    recommendations: list[str]
    variant: str


class SimulatedInteraction(msgspec.Struct, frozen=True, gc=False):
    """An action of a user on an item, as written."""

    ts: int
    request_id: str
    user: str
    item: str
    type: str
    event_id: str = ""


class Streams(NamedTuple):
    """Both logs in the order of writing; bytes are invalid records."""

    impressions: Sequence[Impression | bytes]
    interactions: Sequence[SimulatedInteraction | bytes]


T = TypeVar("T", Impression, SimulatedInteraction)
_Random: TypeAlias = np.random.Generator
_ShownList: TypeAlias = tuple[Impression, list[str]]
"""A list and its clicked items."""


def streams(lists: int, seed: int, *, invalid: bool = True) -> Streams:
    """Both logs; deterministic.

    `lists`: number of lists shown. `invalid`: whether to include invalid records.

    Example:
        >>> [each.request_id for each in streams(2, 0, invalid=False).impressions]
        ['r0-0', 'r0-0', 'r0-1']
    """
    random = np.random.default_rng([seed, _SEED])
    clicked_lists = list(_show(lists, seed))
    done = _interactions(random, clicked_lists, seed)
    share = _INVALID if invalid else 0.0
    impressions = [impression for impression, _ in clicked_lists]

    def retry(impression: Impression) -> Impression:
        """The same request again: the same record, or one with a slightly later time."""
        after = _up_to(random, _RETRY) if random.random() < 0.5 else 0
        return msgspec.structs.replace(impression, ts=impression.ts + after)

    return Streams(
        impressions=_log(random, share, impressions, retry),
        interactions=_log(random, share, done, lambda record: record),
    )


def line(record: Impression | SimulatedInteraction | bytes) -> bytes:
    """A record as written, without the newline."""
    return record if isinstance(record, bytes) else msgspec.json.encode(record)


def _show(lists: int, seed: int) -> Iterator[_ShownList]:
    decode = msgspec.json.Decoder(Record).decode
    made = records(SimulatorOptions(seed=seed, events=lists))
    for number, record in enumerate(map(decode, made)):
        impression = Impression(
            ts=_BEGIN + number * _INTERVAL,
            request_id=f"r{record.event_id}",
            user=intern(record.user),
            recommendations=list(map(intern, record.recommendations)),
            variant=_NAMES[record.variant],
        )
        yield impression, record.interactions


def _interactions(
    random: _Random, shown_lists: Sequence[_ShownList], seed: int
) -> list[SimulatedInteraction]:
    done = [
        _interaction(impression, item, kind, after)
        for impression, clicked in shown_lists
        for item in clicked
        for kind, after in _path(random)
    ]
    lists = [impression for impression, _ in shown_lists]
    outside = _count(_OUTSIDE, len(done))
    orphans = _count(_ORPHANS, len(done))
    views = [_view(random, list_) for list_ in lists for _ in range(random.poisson(_VIEWS))]
    done += [_outside(random, _choice(random, lists)) for _ in range(outside)]
    done += [_orphan(random, _choice(random, lists), gone=n % 2 == 0) for n in range(orphans)]
    ordered = sorted(done + views, key=lambda record: record.ts)
    replace = msgspec.structs.replace
    return [replace(record, event_id=f"e{seed}-{n}") for n, record in enumerate(ordered)]


def _path(random: _Random) -> Iterator[tuple[str, int]]:
    """A click, sometimes followed by a cart, sometimes by a purchase; each with its delay."""
    after = min(int(random.exponential(_CLICK)), _DELAY)
    yield "click", after
    if random.random() < _TO_CART:
        after += _up_to(random, min(_CART, _DELAY - after))
        yield "cart", after
        if random.random() < _TO_PURCHASE:
            yield "purchase", after + _up_to(random, _DELAY - after)


def _outside(random: _Random, impression: Impression) -> SimulatedInteraction:
    while (item := f"item-{random.integers(CATALOG_SIZE)}") in impression.recommendations:
        pass
    return _interaction(impression, item, "click", _up_to(random, _DELAY))


def _orphan(random: _Random, impression: Impression, *, gone: bool) -> SimulatedInteraction:
    item = impression.recommendations[random.integers(LENGTH)]
    if gone:
        never = msgspec.structs.replace(
            impression, request_id=f"{impression.request_id}-never-shown"
        )
        return _interaction(never, item, "click", _up_to(random, _CLICK))
    return _interaction(
        impression, item, "purchase", SIMULATED_WINDOW + 1 + _up_to(random, SIMULATED_WINDOW)
    )


def _view(random: _Random, impression: Impression) -> SimulatedInteraction:
    item = impression.recommendations[random.integers(LENGTH)]
    return _interaction(impression, item, IGNORED_TYPE, _up_to(random, _VIEW))


def _interaction(impression: Impression, item: str, kind: str, after: int) -> SimulatedInteraction:
    return SimulatedInteraction(
        impression.ts + after, impression.request_id, impression.user, item, kind
    )


def _log(
    random: _Random, invalid: float, records: Sequence[T], again: Callable[[T], T]
) -> list[T | bytes]:
    """Records in the order of writing: shortly after their times, except for late ones."""
    size = len(records)
    entries: list[tuple[int, T | bytes]] = [
        (record.ts + _up_to(random, _DISORDER), record) for record in records
    ]
    for index in _sample(random, _LATE, size):
        at, record = entries[index]
        entries[index] = at + LATENESS + _up_to(random, _LATER), record
    for index in _sample(random, _DUPLICATE, size):
        duplicate = again(records[index])
        entries.append((duplicate.ts + _up_to(random, _DISORDER), duplicate))
    for number, index in enumerate(_sample(random, invalid, size)):
        entries.append((records[index].ts, _break(line(records[index]), number)))
    return [record for _, record in sorted(entries, key=itemgetter(0))]


def _break(record: bytes, number: int) -> bytes:
    """Break a record, in turn: half of it, without a time, or with a word as its time."""
    broken = (
        record[: len(record) // 2],
        record.replace(b'"ts":', b'"tz":', 1),
        record.replace(b'"ts":', b'"ts":"soon","tz":', 1),
    )
    return broken[number % len(broken)]


def _sample(random: _Random, share: float, of: int) -> list[int]:
    indices: list[int] = random.choice(of, _count(share, of), replace=False).tolist() if of else []
    return sorted(indices)


def _count(share: float, of: int) -> int:
    """A share of a number, but at least one if the share is not 0."""
    return min(of, max(1, round(share * of))) if share else 0


def _choice(random: _Random, lists: Sequence[Impression]) -> Impression:
    return lists[int(random.integers(len(lists)))]


def _up_to(random: _Random, longest: int) -> int:
    return int(random.integers(longest, endpoint=True))
